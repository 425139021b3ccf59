"""One contestant on one half of one set of records, for linkage.py: fit on half the entities, predict the others.

    python linkage_peers.py '{"set": "restaurants", "contestant": "splink", "seed": 0, "jobs": 2, "folder": ...}'

Everyone gets the same records, fields and candidate pairs (kinfolk's blocking, which is not timed), and the true
clusters of the training half. Where nothing else is said, a peer's threshold is the one with the best pair F1 after its
clustering of the training pairs, among those kinfolk tries; kinfolk has five folds for that, the peers the scores of
the pairs they learned from. Fit is everything on the training half, predict
everything on the test half.

kinfolk       as it comes: its own comparisons; average link, or one-to-one matching for two tables; five folds
splink        comparisons of its library as its guides advise: NameComparison with term frequencies for names,
              DateOfBirthComparison, Damerau-Levenshtein for codes, Jaro-Winkler for short texts; shared words as levels
              of a CustomComparison for longer ones, for which it has nothing ready. m from the label column, u from a
              million random pairs (its default), the prior from the labels. Pairs go in by
              register_blocked_pairs_for_predict; its clusters are connected components, or single best links for two
              tables without duplicates
splink EM     the same comparisons without labels: the prior by rules that matches hardly break (RULES), with the recall
              of 0.7 of its tutorial; u from a million random pairs; m by EM in two passes, each on pairs that agree on
              something else; connected components (single best links for two tables) above 0.5, 0.8 or 0.95,
              whichever is best by the truth of the test half
dedupe        the variables of its examples: String, ShortString, Text with the corpus of the records, Price; missing
              values marked; its default classifier (logistic regression, strength by cross-validation) learns all
              training pairs; its hierarchical clustering, or its greedy matching for two tables. "dedupe" has its
              default threshold, 0.5; "dedupe tuned" one chosen on the training pairs, which is no gain throughout: its
              clusters collapse into one below some threshold that differs from half to half
logistic      scikit-learn's on kinfolk's comparison values: standardised, missing as 0 with an indicator; connected
              components or average link, one-to-one matching for two tables in place of the latter
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import sys
import tempfile
import time
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import peak_megabytes

from kinfolk.core.data import Column
from kinfolk.linking.mentions import Mentions

Answer = dict[str, Any]
Array = Any
WORD, NUMBER = re.compile("[a-z0-9]+"), re.compile(r"\d+(?:\.\d+)?")

# What the fields hold, as the two libraries are told
NAME, TEXT, SHORT, CODE, DATE, PRICE = "name", "text", "short", "code", "date", "price"
FIELDS: dict[str, dict[str, str]] = {
    "FEBRL 3": {
        "given_name": NAME, "surname": NAME, "street_number": CODE, "address_1": SHORT, "address_2": SHORT,
        "suburb": SHORT, "postcode": CODE, "state": CODE, "date_of_birth": DATE, "soc_sec_id": CODE,
    },
    "restaurants": {"name": SHORT, "addr": SHORT, "phone": CODE, "city": SHORT, "type": SHORT},
    "Cora references": {
        "address": SHORT, "author": TEXT, "editor": TEXT, "institution": SHORT, "month": CODE, "note": SHORT,
        "pages": CODE, "publisher": SHORT, "title": TEXT, "venue": TEXT, "volume": CODE, "year": CODE,
    },
    "DBLP-ACM": {"title": TEXT, "authors": TEXT, "venue": SHORT, "year": CODE},
    "Abt-Buy": {"name": TEXT, "description": TEXT, "price": PRICE},
}  # fmt: skip
# What Splink needs without labels: rules that hold for matches alone, and those of two passes of EM
SURE, PASSES = "sure", "passes"
FIRST_WORD = "split_part(l.name, ' ', 1) = split_part(r.name, ' ', 1)"
FOUR_WORDS = "len(list_intersect(l.name_words, r.name_words)) >= 4"
RULES: dict[str, dict[str, list[Any]]] = {
    "FEBRL 3": {
        SURE: [["given_name", "surname", "date_of_birth"], ["soc_sec_id"]], PASSES: [["surname"], ["date_of_birth"]],
    },
    "restaurants": {SURE: [["phone"], ["name", "city"]], PASSES: [["phone"], ["city"]]},
    "Cora references": {SURE: [["title", "year"], ["title", "author"]], PASSES: [["title"], ["year"]]},
    "DBLP-ACM": {SURE: [["title", "year"]], PASSES: [["title"], ["year"]]},
    "Abt-Buy": {SURE: [FOUR_WORDS], PASSES: [["price"], FIRST_WORD]},
}  # fmt: skip
Fitted = Callable[[Mentions], Array]  # clusters of other items


def values_of(items: Mentions, field: str, kind: str) -> list[Any]:
    """As the libraries ask for them: lower case, no accents, no punctuation; numbers for prices; None if missing."""
    column = items.columns[field]
    given = column.strings() if isinstance(column, Column) else [None if np.isnan(v) else f"{v:g}" for v in column]
    if kind == PRICE:
        return [price(text) for text in given]
    between = "" if kind == CODE else " "
    return [text and (between.join(WORD.findall(plain(text))) or None) for text in given]


def plain(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower().replace("'", "")


def price(text: str | None) -> float | None:
    found = NUMBER.search((text or "").replace(",", ""))
    return float(found[0]) or None if found else None


def best_log_odds(items: Mentions, cluster: Callable[[float], Array]) -> float:
    """The threshold, as log-odds, with the best clusters of the training items; the middle one of equals."""
    from kinfolk.linking.scores import pairs_after
    from kinfolk.linking.training import LOG_ODDS

    found = [pairs_after(items, cluster(float(t))).f1 for t in LOG_ODDS]
    good = np.flatnonzero(np.array(found) >= max(found) - 0.001)
    return float(LOG_ODDS[good[(len(good) - 1) // 2]])


def components(items: Mentions, kept: Array) -> Array:
    """Connected components of some of the pairs."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    left, right = items.left[kept], items.right[kept]
    links = coo_array((np.ones(len(left), bool), (left, right)), shape=(items.n_items, items.n_items))
    return connected_components(links, directed=False)[1].astype(np.int32)


def greedy(items: Mentions, score: Array) -> Array:
    """A mask of the pairs of a greedy one-to-one matching: the best pair first, then the best of those left."""
    taken = np.zeros(items.n_items, bool)
    chosen = np.zeros(items.n_pairs, bool)
    for k in np.argsort(-score, kind="stable"):
        a, b = items.left[k], items.right[k]
        if not taken[a] and not taken[b]:
            taken[a] = taken[b] = chosen[k] = True
    return chosen


# -- kinfolk ------------------------------------------------------------------------------------------


def kinfolk(train: Mentions, training: str, jobs: int) -> Fitted:
    from kinfolk.linking.clusterers import AverageLink, OneToOne
    from kinfolk.linking.linker import Linker

    if training == "unlabelled":
        return Linker(n_jobs=jobs).fit(replace(train, clusters=None)).predict
    clusterer = AverageLink() if train.first_table is None else OneToOne()
    return Linker(training=training, clusterer=clusterer, folds=5, n_jobs=jobs).fit(train).predict


# -- logistic regression ------------------------------------------------------------------------------


def logistic(train: Mentions, link: str) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from kinfolk.linking.clusterers import AverageLink, OneToOne
    from kinfolk.linking.comparisons import default_comparisons

    features = [feature.learn(train) for feature in default_comparisons(train)]

    def table(items: Mentions) -> Array:
        values = np.concatenate([feature.of(items)(items.left, items.right) for feature in features], axis=1)
        return np.concatenate([np.nan_to_num(values), np.isnan(values)], axis=1)

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(table(train), train.pair_labels)

    def clusters(items: Mentions, score: Array, threshold: float) -> Array:
        if link == "components":
            return components(items, score > threshold)
        kind = AverageLink if items.first_table is None else OneToOne
        return kind(1 / (1 + np.exp(-threshold))).cluster(items.n_items, items.left, items.right, sigmoid(score))

    known = model.decision_function(table(train))
    threshold = best_log_odds(train, lambda t: clusters(train, known, t))
    return lambda items: clusters(items, model.decision_function(table(items)), threshold)


def sigmoid(score: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -score))


# -- dedupe -------------------------------------------------------------------------------------------


def dedupe(train: Mentions, fields: dict[str, str], chosen: bool) -> Fitted:
    from dedupe import Dedupe, clustering
    from dedupe.datamodel import DataModel

    model = DataModel(_variables(train, fields))
    classifier = Dedupe(_variables(train, fields), num_cores=1).classifier  # the default one

    def distances(items: Mentions) -> Array:
        columns = {field: values_of(items, field, kind) for field, kind in fields.items()}
        records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        pairs = [(records[a], records[b]) for a, b in zip(items.left.tolist(), items.right.tolist(), strict=True)]
        return model.distances(pairs)

    def clusters(items: Mentions, probability: Array, threshold: float) -> Array:
        if items.first_table is not None:
            return components(items, greedy(items, probability) & (probability > threshold))
        dupes = np.empty(items.n_pairs, [("pairs", "i8", 2), ("score", "f4")])
        dupes["pairs"], dupes["score"] = np.stack([items.left, items.right], axis=1), probability
        dupes = dupes[dupes["score"] > 0]  # as dedupe does
        found = np.arange(items.n_items, dtype=np.int32)
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            mapped = np.memmap(Path(folder) / "scores", dupes.dtype, "w+", shape=dupes.shape)  # as dedupe keeps them
            mapped[:] = dupes
            for members, _ in clustering.cluster(mapped, threshold):
                found[list(members)] = min(members)
        return found

    known = distances(train)
    classifier.fit(known, train.pair_labels)
    cut = 0.5  # its default
    if chosen:
        trained = classifier.predict_proba(known)[:, -1]
        cut = float(sigmoid(best_log_odds(train, lambda t: clusters(train, trained, float(sigmoid(t))))))
    return lambda items: clusters(items, classifier.predict_proba(distances(items))[:, -1], cut)


def _variables(items: Mentions, fields: dict[str, str]) -> list[Any]:
    from dedupe import variables

    found: list[Any] = []
    for field, kind in fields.items():
        if kind == PRICE:
            found.append(variables.Price(field, has_missing=True))
        elif kind in (CODE, DATE):
            found.append(variables.ShortString(field, has_missing=True))
        elif kind == TEXT:
            corpus = [value for value in values_of(items, field, kind) if value]
            found.append(variables.String(field, has_missing=True, name=f"{field} string"))
            found.append(variables.Text(field, corpus=corpus, has_missing=True, name=f"{field} text"))
        else:
            found.append(variables.String(field, has_missing=True))
    return found


# -- Splink -------------------------------------------------------------------------------------------


def splink(train: Mentions, fields: dict[str, str], seed: int) -> Fitted:
    from splink import SettingsCreator

    logging.disable(logging.WARNING)
    two = train.first_table is not None
    prior = train.n_true_pairs / train.n_possible_pairs
    settings: Any = SettingsCreator(
        link_type="link_only" if two else "dedupe_only",
        comparisons=[_comparison(field, kind) for field, kind in fields.items()],
        blocking_rules_to_generate_predictions=[],
        probability_two_random_records_match=prior,
        retain_matching_columns=False,
    )
    linker, _ = _linker(train, fields, settings)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=seed + 1)
    linker.training.estimate_m_from_label_column("entity")
    trained = linker.misc.save_model_to_json()
    known = _scores(train, fields, trained)[0]

    def clusters(t: float) -> Array:  # as Splink's own, without a query for every threshold
        return components(train, (known >= t) & chosen)

    chosen = greedy(train, known) if two else np.ones(train.n_pairs, bool)
    threshold = best_log_odds(train, clusters)
    return _splink_clusters(fields, trained, float(sigmoid(np.array(threshold))), two)


def splink_em(items: Mentions, fields: dict[str, str], rules: dict[str, list[Any]], seed: int) -> Fitted:
    """Without labels; the best of three thresholds in hindsight."""
    from splink import SettingsCreator, block_on

    from kinfolk.linking.scores import pairs_after

    logging.disable(logging.WARNING)
    two = items.first_table is not None
    settings: Any = SettingsCreator(
        link_type="link_only" if two else "dedupe_only",
        comparisons=[_comparison(field, kind) for field, kind in fields.items()],
        blocking_rules_to_generate_predictions=[],
        retain_matching_columns=False,
    )
    linker, _ = _linker(replace(items, clusters=np.arange(items.n_items)), fields, settings)
    sure, passes = ([block_on(*of) if isinstance(of, list) else of for of in rules[kind]] for kind in (SURE, PASSES))
    linker.training.estimate_probability_two_random_records_match(sure, recall=0.7)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=seed + 1)
    for rule in passes:
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    trained = linker.misc.save_model_to_json()
    found = [_splink_clusters(fields, trained, cut, two) for cut in (0.5, 0.8, 0.95)]

    def best(items: Mentions) -> Array:
        return max((predict(items) for predict in found), key=lambda clusters: pairs_after(items, clusters).f1)

    return best


def _splink_clusters(fields: dict[str, str], trained: Any, cut: float, two: bool) -> Fitted:
    """Its clusters of pairs above a probability."""

    def predict(items: Mentions) -> Array:
        _, linker, predictions = _scores(items, fields, trained)
        if two:
            sets = ["first", "second"]
            table = linker.clustering.cluster_using_single_best_links(
                predictions, duplicate_free_datasets=sets, threshold_match_probability=cut
            )
        else:
            table = linker.clustering.cluster_pairwise_predictions_at_threshold(
                predictions, threshold_match_probability=cut
            )
        rows = table.as_duckdbpyrelation().df()
        number = np.full(items.n_items, -1, np.int64)
        number[rows["unique_id"].to_numpy()] = np.unique(rows["cluster_id"].to_numpy(), return_inverse=True)[1]
        alone = number < 0
        number[alone] = number.max(initial=-1) + 1 + np.arange(alone.sum())
        return number.astype(np.int32)

    return predict


def _linker(items: Mentions, fields: dict[str, str], settings: Any) -> tuple[Any, Any]:
    import pyarrow as pa
    from splink import DuckDBAPI, Linker

    api = DuckDBAPI()
    columns: dict[str, Any] = {field: values_of(items, field, kind) for field, kind in fields.items()}
    for field, kind in fields.items():
        if kind == TEXT:
            columns[f"{field}_words"] = [text and sorted(set(text.split())) for text in columns[field]]
    table = pa.table({**columns, "unique_id": np.arange(items.n_items), "entity": items.clusters})
    if items.first_table is None:
        tables = api.register(table, dataset_display_name="records")
    else:
        parts = (("first", table[: items.first_table]), ("second", table[items.first_table :]))
        tables = [api.register(part, dataset_display_name=name) for name, part in parts]
    return Linker(tables, settings, log_level=logging.ERROR), api


def _scores(items: Mentions, fields: dict[str, str], settings: Any) -> tuple[Any, ...]:
    """Log-odds of each candidate pair, and what clustering needs."""
    import pandas as pd

    linker, api = _linker(items, fields, settings)
    keys = np.arange(items.n_items).astype(str).astype(object)
    if items.first_table is not None:
        keys = np.array(["first-__-"] * items.first_table + ["second-__-"] * (items.n_items - items.first_table)) + keys
    pairs = pd.DataFrame({"match_key": "0", "join_key_l": keys[items.left], "join_key_r": keys[items.right]})
    linker.table_management.register_blocked_pairs_for_predict(api.register(pairs, dataset_display_name="pairs"))
    predictions = linker.inference.predict()
    rows = predictions.as_duckdbpyrelation().df()
    weight = pd.Series(rows["match_weight"].to_numpy() * np.log(2), index=_pair_keys(rows))
    found = weight.reindex(items.left.astype(np.int64) << 32 | items.right)
    assert not found.isna().any(), "Splink has not scored every candidate pair"
    return found.to_numpy(), linker, predictions


def _pair_keys(rows: Any) -> Array:
    a, b = (rows[name].to_numpy().astype(np.int64) for name in ("unique_id_l", "unique_id_r"))
    return np.minimum(a, b) << 32 | np.maximum(a, b)


def _comparison(field: str, kind: str) -> Any:
    import splink.comparison_library as cl

    if kind == NAME:
        return cl.NameComparison(field)
    if kind == DATE:
        return cl.DateOfBirthComparison(field, input_is_string=True, datetime_format="%Y%m%d")
    if kind == CODE:
        return cl.DamerauLevenshteinAtThresholds(field, [1, 2])
    if kind == SHORT:
        return cl.JaroWinklerAtThresholds(field, [0.95, 0.9, 0.8, 0.7])
    if kind == PRICE:
        return cl.CustomComparison(
            output_column_name=field,
            comparison_levels=[
                {"sql_condition": f"{field}_l is null or {field}_r is null", "label_for_charts": "null",
                 "is_null_level": True},
                *({"sql_condition": f"abs({field}_l - {field}_r) <= {share} * greatest({field}_l, {field}_r)",
                   "label_for_charts": f"within {share}"} for share in (0.01, 0.1, 0.3)),
                {"sql_condition": "else", "label_for_charts": "else"},
            ],
        )  # fmt: skip
    words = f"{field}_words"
    shared = f"len(list_intersect({words}_l, {words}_r))"
    overlap = f"{shared} / (len({words}_l) + len({words}_r) - {shared})"
    return cl.CustomComparison(
        output_column_name=field,
        comparison_levels=[
            {"sql_condition": f"{words}_l is null or {words}_r is null", "label_for_charts": "null",
             "is_null_level": True},
            *({"sql_condition": f"{overlap} >= {least}", "label_for_charts": f"{least} of the words"}
              for least in (1.0, 0.8, 0.6, 0.45, 0.3, 0.15)),
            {"sql_condition": "else", "label_for_charts": "else"},
        ],
    )  # fmt: skip


# -- one run ------------------------------------------------------------------------------------------


def halves(items: Mentions, seed: int) -> tuple[Mentions, Mentions]:
    assert items.clusters is not None
    entities = np.random.default_rng(seed).permutation(np.unique(items.clusters))
    first = np.isin(items.clusters, entities[: len(entities) // 2])
    return _own(items.take(first)), _own(items.take(~first))


def _own(items: Mentions) -> Mentions:
    """Without values that no record has: peers get their tables made from scratch, too."""
    columns = {
        name: Column.from_strings(column.strings()) if isinstance(column, Column) else column
        for name, column in items.columns.items()
    }
    return items.with_columns(**columns)


def fit(contestant: str, name: str, train: Mentions, seed: int, jobs: int) -> Fitted:
    library, _, rest = contestant.partition(" ")
    if library == "kinfolk":
        return kinfolk(train, rest, jobs)
    if contestant == "splink EM":
        return splink_em(train, FIELDS[name], RULES[name], seed)
    if library == "splink":
        return splink(train, FIELDS[name], seed)
    if library == "dedupe":
        return dedupe(train, FIELDS[name], chosen=rest == "tuned")
    return logistic(train, rest.removeprefix("+ "))


UNLABELLED = ("kinfolk unlabelled", "splink EM")  # learn from the test half


def warm_up(contestant: str) -> None:
    """Load, and for kinfolk compile where it never was, what is about to be measured."""
    modules = {
        "kinfolk": ("sklearn.tree", "rapidfuzz"), "splink": ("splink.comparison_library", "pandas"),
        "dedupe": ("dedupe", "sklearn.model_selection"), "logistic": ("sklearn.linear_model", "sklearn.preprocessing"),
    }  # fmt: skip
    library = contestant.partition(" ")[0]
    for module in modules[library]:
        importlib.import_module(module)
    if library in ("kinfolk", "logistic"):
        from kinfolk.datasets.customers import generate_customers
        from kinfolk.linking.blocking import block

        items = block(generate_customers(300, seed=1), "sorted(surname, 5)")
        kinfolk(items, "structured", 1)(items)


def main(set: str, contestant: str, seed: int, jobs: int, folder: str) -> Answer:
    from kinfolk.linking.blocking import blocked
    from kinfolk.linking.scores import METRICS, pairs_after
    from kinfolk.papers.structured import SETS

    warnings.simplefilter("ignore")
    busy = os.getloadavg()[0]
    one = next(one for one in SETS if one.name == set)
    items = one.read(Path(folder) / "mentions" / "records")
    (train, _), (test, report) = (blocked(half, one.rules) for half in halves(items, seed))
    warm_up(contestant)
    began = time.perf_counter()
    fitted = fit(contestant, set, test if contestant in UNLABELLED else train, seed, jobs)
    middle = time.perf_counter()
    clusters = fitted(test)
    ended = time.perf_counter()
    pairs = pairs_after(test, clusters)
    return {
        "load_average": busy, "set": set, "contestant": contestant, "seed": seed, "fit_seconds": middle - began,
        "predict_seconds": ended - middle, "peak_mb": peak_megabytes(), "train_pairs": train.n_pairs,
        "test_pairs": test.n_pairs, "completeness": report.pair_completeness, "pair_f1": pairs.f1,
        "precision": pairs.precision, "recall": pairs.recall, "cluster_f1": METRICS["cluster_f1"](test, clusters),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
