"""Tables 1 to 3 of structured local training and the record sets: the form of their rows on made-up data, two figures
on the real."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import kinfolk as kf
from kinfolk.cli.main import app
from kinfolk.errors import InputError
from kinfolk.linking import choosing
from kinfolk.papers import structured as slt
from kinfolk.papers import structured as slt_gum
from kinfolk.papers import structured as slt_litbank
from kinfolk.papers import structured as slt_records
from kinfolk.papers.harness import Run, experiment

FIGURES = ("error", "recall", "precision", "f1")
MUC = ("muc_recall", "muc_precision", "muc_f1")
LOCAL = ["BASE", "BASE P1 1.5", "BASE P1 3.0", "BASE Pa 1.5", "BASE Pa 3.0"]
STRUCTURED = ["SLT", "SLT P1 1.5", "SLT P1 3.0", "SLT Pa 1.5", "SLT Pa 3.0"]
MARGIN = [f"{name} margin" for name in STRUCTURED[1:]]
TUNED = [slt.BEST_LOCAL, *slt.TUNED, slt.TWO_LOCAL, slt.NOTHING]
BY_MUC = ", round by MUC"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of linear algebra would only wait for each other on tables this small."""
    with threadpool_limits(1):
        yield


def quiet(line: str) -> None:
    assert isinstance(line, str)


# -- small documents in the layout of the data folder


def add_file(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def some_mentions(rng: np.random.Generator, count: int, noise: float) -> list[tuple[str, str, str, int]]:
    """Mentions as (words, type, form, cluster): persons by name, by part of it, or as "she", who may be anyone."""
    names = ["Anna Bell", "Carla Dean", "Bella Stone"]
    found = []
    for _ in range(count):
        who = int(rng.integers(3))
        first, last = names[who].split()
        told, form = [(names[who], "PROP"), (last, "PROP"), (first, "PROP"), ("she", "PRON")][int(rng.integers(4))]
        if noise == 0:
            told, form = names[who], "PROP"
        cluster = who if rng.random() >= noise else 3 + int(rng.integers(2))
        found.append((told, "PER", form, cluster))
    return found


def sentences_of(mentions: list[tuple[str, str, str, int]]) -> list[list[tuple[str, int | None, bool, bool]]]:
    """One sentence a mention: its words with cluster, whether they open and whether they close it; then some more."""
    sentences = []
    for words, _, _, cluster in mentions:
        parts = words.split()
        own = [(word, cluster, k == 0, k == len(parts) - 1) for k, word in enumerate(parts)]
        sentences.append([*own, ("went", None, False, False), (".", None, False, False)])
    return sentences


def bracket(label: str, opens: bool, closes: bool) -> str:
    return f"({label})" if opens and closes else f"({label}" if opens else f"{label})" if closes else ""


def litbank_document(name: str, mentions: list[tuple[str, str, str, int]]) -> tuple[str, str]:
    """CoNLL-2012 lines and the .ann beside them."""
    lines = [f"#begin document ({name}); part 0"]
    for sentence in sentences_of(mentions):
        for k, (word, cluster, opens, closes) in enumerate(sentence):
            cell = "" if cluster is None else bracket(str(cluster), opens, closes)
            lines.append("\t".join([name, "0", str(k), word, *["_"] * 8, cell]))
        lines.append("")
    lines.append("#end document")
    notes = [
        f"MENTION\tT{k}\t{k}\t0\t{k}\t{len(words.split()) - 1}\t{words}\t{kind}\t{form}"
        for k, (words, kind, form, _) in enumerate(mentions)
    ]
    return "\n".join(lines) + "\n", "\n".join(notes) + "\n"


def gum_document(name: str, mentions: list[tuple[str, str, str, int]]) -> tuple[str, str]:
    """GUM's columns without sentences, and the CoNLL-U file that has them."""
    lines, parsed, at = [f"# begin document {name}"], [f"# newdoc id = {name}"], 0
    for sentence in sentences_of(mentions):
        for k, (word, cluster, opens, closes) in enumerate(sentence):
            cell = "_" if cluster is None else bracket(f"person-{cluster}", opens, closes)
            if cluster is not None and closes and not opens:
                cell = f"person-{cluster})"
            lines.append(f"{at}\t{word}\t{cell or '_'}")
            pos = "PUNCT" if word == "." else "VERB" if word == "went" else "PRON" if word == "she" else "PROPN"
            head, relation = (0, "root") if word == "went" else (len(sentence) - 1, "nsubj")
            parsed.append(f"{k + 1}\t{word}\t{word}\t{pos}\t_\t_\t{head}\t{relation}\t_\t_")
            at += 1
        parsed.append("")
    return "\n".join([*lines, "# end document"]) + "\n", "\n".join(parsed) + "\n"


def write_litbank(data: Path, documents: int = 100) -> None:
    folder, rng = data / "mentions" / "litbank", np.random.default_rng(0)
    folder.mkdir(parents=True)
    with tarfile.open(folder / "litbank.tar.gz", "w:gz") as archive:
        for number in rng.permutation(documents):  # an archive is in no order
            name = f"{1000 + number}_novel_brat"
            own = np.random.default_rng(int(number))
            text, notes = litbank_document(name, some_mentions(own, 5 + int(number) % 3, 0.15))
            add_file(archive, f"coref/conll/{name}.conll", text)
            add_file(archive, f"coref/tsv/{name}.ann", notes)


SPLIT = {
    "dev": ["GUM_news_dev", "GUM_reddit_dev"],
    "test": ["GUM_essay_t1", "GUM_news_t1", "GUM_news_t2", "GUM_reddit_t1"],
    "test2": ["GENTLE_poetry_one"],
    "train": [
        *(f"GUM_{genre}_{k}" for genre in ("essay", "news", "reddit") for k in ("five", "four", "one", "three", "two"))
    ],
}


def split_text(split: dict[str, list[str]]) -> str:
    told = "# Splits\n\nThe following standard train / dev / test splits are used. See README.md.\n"
    return told + "".join(f"\n## {name}\n\n" + "".join(f"  * {d}\n" for d in split[name]) for name in split)


def write_gum(data: Path, missing: str = "") -> None:
    folder = data / "mentions" / "gum"
    folder.mkdir(parents=True)
    (folder / "splits.md").write_text(split_text(SPLIT))
    with tarfile.open(folder / "gum.tar.gz", "w:gz") as archive:
        for number, name in enumerate(sorted(d for part in SPLIT.values() for d in part)):
            if name != missing:
                text, parsed = gum_document(name, some_mentions(np.random.default_rng(50 + number), 7, 0.15))
                add_file(archive, f"coref/gum/conll/{name}.conll", text)
                add_file(archive, f"dep/{name}.conllu", parsed)


# -- small tables of records


def typo(rng: np.random.Generator, text: str, noise: float = 0.5) -> str:
    at = int(rng.integers(len(text)))
    return text[:at] + str(rng.choice(list("abcxyz"))) + text[at + 1 :] if rng.random() < noise else text


def made_name(rng: np.random.Generator, words: int) -> str:
    parts = "an be cor dul es fi gar ho im ja ku lo mar ne os per".split()
    return " ".join("".join(rng.choice(parts, 2)) for _ in range(words))


NUMBERS = ((1, 99), (2000, 3000), (10, 99), (10**6, 10**7))  # of house, post code, year of birth, insurance


def write_febrl(folder: Path, number: int, entities: int = 24) -> None:
    """Commas with a blank after them, as FEBRL writes."""
    rng = np.random.default_rng(number)
    titles = (
        "rec_id, given_name, surname, street_number, address_1, address_2, suburb, postcode, state, date_of_birth, "
    )
    rows = []
    for entity in range(entities):
        given, surname, street, place, suburb = (made_name(rng, 1) for _ in range(5))
        number_, postcode, born, insured = (str(rng.integers(*ends)) for ends in NUMBERS)
        fixed = [given, surname, number_, f"{street} street", place, suburb, postcode, "nsw", f"19{born}0115", insured]
        for copy in range(1 + entity % 3):
            told = fixed if copy == 0 else [typo(rng, cell, 0.3) if cell.isalpha() else cell for cell in fixed]
            rows.append(", ".join([f"rec-{entity}-{'org' if copy == 0 else f'dup-{copy - 1}'}", *told]))
    rng.shuffle(rows)
    (folder / "febrl").mkdir(exist_ok=True)
    (folder / "febrl" / f"dataset{number}.csv").write_text(titles + "soc_sec_id\n" + "\n".join(rows) + "\n")


def write_one_table(folder: Path, place: str, file: str, truth: str, titles: str, fields: list[int]) -> None:
    """One table with ids from 0, and a file of matches without titles; `fields` are words a field."""
    rng = np.random.default_rng(len(place))
    rows, matches, ends = [], [], "|" if titles.endswith("|") else ""
    for entity in range(14):
        fixed = [
            made_name(rng, words) if words else f"{rng.integers(100, 999)}-{rng.integers(100)}" for words in fields
        ]
        copies = 1 + entity % (4 if place == "cora" else 2)
        matches += [f"{len(rows) + a}|{len(rows) + b}" for b in range(copies) for a in range(b)]
        for _ in range(copies):
            rows.append(f"{len(rows)}|" + "|".join(typo(rng, cell) for cell in fixed) + ends)
    (folder / place).mkdir()
    (folder / place / file).write_text("\n".join([titles, *rows]) + "\n")
    (folder / place / truth).write_text("\n".join(matches) + "\n")


def write_two_tables(folder: Path, place: str, names: list[str], divider: str, titles: list[str]) -> None:
    rng = np.random.default_rng(9)
    fixed = [[made_name(rng, 5), made_name(rng, 6)] for _ in range(16)]
    matches = ["D1" + divider + "D2"]
    (folder / place).mkdir()
    for table, name in enumerate(names):
        order = rng.permutation(14) + 2 * table  # 12 of 14 in both
        rows = [
            divider.join([str(k), *(typo(rng, cell) for cell in fixed[e]), *(["1999"] * (len(titles) - 3))])
            for k, e in enumerate(order)
        ]
        (folder / place / f"{name}.csv").write_text("\n".join([divider.join(titles), *rows]) + "\n")
        if table == 0:
            first = {int(e): k for k, e in enumerate(order)}
        else:
            matches += [f"{first[int(e)]}{divider}{k}" for k, e in enumerate(order) if int(e) in first]
    (folder / place / "gt.csv").write_text("\n".join(matches) + "\n")


def write_records(data: Path) -> None:
    folder = data / "mentions" / "records"
    folder.mkdir(parents=True)
    for number in (1, 2, 3):
        write_febrl(folder, number)
    titles = "id|name|addr|phone|city|type"
    write_one_table(folder, "restaurant", "restaurantProfiles.csv", "duplicates.csv", titles, [3, 3, 0, 1, 1])
    titles = "Entity Id|address|author|editor|institution|month|note|pages|publisher|title|venue|volume|year|"
    write_one_table(folder, "cora", "cora.csv", "cora_gt.csv", titles, [1, 4, 1, 2, 1, 1, 0, 1, 6, 4, 0, 0])
    write_two_tables(folder, "dblp_acm", ["dblp", "acm"], "%", ["id", "title", "authors", "venue", "year"])
    write_two_tables(folder, "abt_buy", ["abt", "buy"], "|", ["id", "name", "description", "price"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for write in (write_litbank, write_gum, write_records):
        write(folder)
    return folder


# -- what every row has


def as_json(report: Any, experiment: str) -> list[dict[str, Any]]:
    told = json.loads(json.dumps(report.as_dict(), default=repr, allow_nan=False))
    assert list(told) == ["experiment", "rows", "seconds", "settings"]
    assert told["experiment"] == experiment and told["seconds"] > 0 and told["settings"]
    return told["rows"]


def check_figures(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        assert list(row)[:4] == ["dataset", "model", "split", "stage"] and row["stage"] in ("before", "after")
        assert all(0 <= row[key] <= 100 for key in (*FIGURES, *MUC) if key in row)
        assert all(key in row for key in FIGURES)


def check_tables(rows: list[dict[str, Any]], datasets: list[str], models: list[str]) -> list[dict[str, Any]]:
    """The rows of our own, for every data set and model before and after, and those tuned; then the paper's."""
    check_figures(rows)
    own = [row for row in rows if row["split"] != "paper"]
    assert rows[len(own) :] == json.loads(json.dumps(slt.paper_rows()))
    further = [row for row in own if row["model"].endswith(BY_MUC)]
    assert [(row["dataset"], row["model"], row["split"], row["stage"]) for row in own if row not in further] == [
        (dataset, model, "test", stage)
        for dataset in datasets
        for model, stages in [*((one, ("before", "after")) for one in models), *((one, ("after",)) for one in TUNED)]
        for stage in stages
    ]
    for row in own:
        after = row["stage"] == "after"
        assert all((key in row) == after for key in (*MUC, "conll"))
        assert ("rounds" in row) == ("round" in row) == (after and row["model"] not in TUNED)
        over = slt.local_beside(row["model"]) if after else None
        assert row.get("gain_over") == over and ("gain" in row) == ("conll_gain" in row) == (over is not None)
        if over is not None:
            beside = next(one for one in own if (one["dataset"], one["model"]) == (row["dataset"], over))
            for metric, gain in (("f1", "gain"), ("conll", "conll_gain")):
                assert row[gain] == pytest.approx(row[metric] - beside[metric])
        assert row["chosen_on"]
        if "rounds" not in row:
            assert "chosen" not in row
            continue
        scores = [one["round"] for one in row["rounds"]]
        assert scores == list(range(len(scores))) and len(scores) <= 6
        if row["model"].startswith("BASE"):
            assert scores == [0] and row["round"] == 0 and "chosen" not in row
            continue
        trained = [one["muc_f1" if row in further else "pair_f1"] for one in row["rounds"]]
        allowed = range(1, len(trained)) or range(1)
        assert row["round"] == max(allowed, key=lambda k: (trained[k], -k)), "the first of the best, without round 0"
    for dataset in datasets:
        check_chosen([row for row in own if row["dataset"] == dataset and "rounds" in row])
    return own


def check_chosen(rows: list[dict[str, Any]]) -> None:
    """One row for each group and metric: the one with the best score in training."""
    structured = [row for row in rows if row["model"].startswith("SLT")]
    plain = {"SLT", "SLT" + BY_MUC}
    groups = {"structured": structured, "biased": [row for row in structured if row["model"] not in plain]}
    told = [(word, row["model"]) for row in rows for word in row.get("chosen", "").split()]
    metrics = ("pair_f1", "muc_f1")
    assert sorted(word for word, _ in told) == sorted(f"{group}:{metric}" for group in groups for metric in metrics)
    for group, members in groups.items():
        for metric in metrics:
            best = max(members, key=lambda row: row["rounds"][row["round"]][metric])
            assert (f"{group}:{metric}", best["model"]) in told


# -- the paper's own figures


def test_the_paper_s_rows():
    rows = slt.paper_rows()
    check_figures(rows)
    assert {row["split"] for row in rows} == {"paper"} and {row["dataset"] for row in rows} == {"MUC6", "MPQA"}
    places = [(row["dataset"], row["model"], row["stage"]) for row in rows]
    expected = {(d, m, "after") for d in ("MUC6", "MPQA") for m in ("BASE", *STRUCTURED)}
    expected |= {(d, m, "before") for d in ("MUC6", "MPQA") for m in (*LOCAL, "SLT")}
    assert len(places) == len(set(places)) and set(places) == expected
    for row in rows:
        for prefix in ("", "muc_"):
            if f"{prefix}f1" in row:
                recall, precision = row[f"{prefix}recall"], row[f"{prefix}precision"]
                assert row[f"{prefix}f1"] == pytest.approx(2 * recall * precision / (recall + precision), abs=0.1)


def test_models_are_named_as_in_the_paper():
    models = slt._models()
    assert [name for name, _, _ in models] == [*LOCAL, *STRUCTURED, *MARGIN]
    assert {row["model"] for row in slt.paper_rows()} == {*LOCAL, *STRUCTURED}
    for name, training, bias in models:
        kind, *rest = name.split()
        assert training == {"BASE": "local", "SLT": "structured"}[kind]
        form = "margin" if rest[2:] == ["margin"] else "weight"
        expected = kf.Bias({"P1": "closest", "Pa": "all"}[rest[0]], float(rest[1]), form) if rest else None
        assert bias == expected


def test_what_a_row_gains_over_has_the_same_clusterer_tuned_by_the_same_metric():
    for name, linker in slt.TUNED.items():
        over = slt.local_beside(name)
        assert (over is None) == (linker.training == "local")
        if over is not None and name != "ranking":  # whose clusterer takes shares of antecedents
            local = slt.TUNED[over]
            assert (repr(local.clusterer), local.select, local.folds) == (
                repr(linker.clusterer), linker.select, linker.folds
            )  # fmt: skip
    assert {slt.local_beside(name) for name, _, _ in slt._models()} == {slt.SINGLE_BY_PAIRS}
    assert slt.local_beside("ranking") == slt.BEST_LOCAL and slt.local_beside(slt.BEST_LOCAL) is None


def test_the_best_clusterer_is_chosen_by_unseen_pairs():
    """Chains whose ends are unlike beside two clusters that are somewhat alike: no average tells which to join."""
    none, n = np.empty(0, np.int32), 6
    groups = np.repeat(np.arange(12, dtype=np.int32), n)
    two = (np.arange(12 * n) // 3).astype(np.int32)
    items = kf.block(kf.Mentions({}, groups, none, none, np.where(groups < 6, 100 + groups, two).astype(np.int32)))
    chain, alike = groups[items.left] < 6, items.pair_labels == 1
    p = np.where(chain, np.where(items.right - items.left == 1, 0.9, 0.02), np.where(alike, 0.9, 0.2))
    both = [kf.AverageLink(), kf.SingleLink()]
    assert isinstance(slt.best_clusterer(items, p, both), kf.SingleLink)
    assert isinstance(slt.best_clusterer(items, np.where(alike, 0.9, 0.1), both), kf.AverageLink), "the first of equals"


# -- which row is chosen


def made_row(model: str, pair: list[float], muc: list[float], test: float) -> dict[str, Any]:
    rounds = [{"round": k, "pair_f1": p, "muc_f1": m} for k, (p, m) in enumerate(zip(pair, muc, strict=True))]
    chosen = muc if model.endswith(BY_MUC) else pair
    best = max(range(1, len(chosen)), key=chosen.__getitem__)
    return {"model": model, "stage": "after", "rounds": rounds, "round": best, "f1": test}


def test_the_test_has_no_say_in_what_is_chosen():
    rows = [
        {"model": "BASE", "stage": "before", "f1": 99.0},
        {"model": "BASE", "stage": "after", "rounds": [{"pair_f1": 1.0}], "round": 0},
        made_row("SLT", [0.99, 0.8, 0.7], [0.99, 0.1, 0.2], test=10),
        made_row("SLT P1 1.5", [0.1, 0.75, 0.6], [0.1, 0.3, 0.4], test=90),
        made_row("SLT Pa 3.0", [0.1, 0.5, 0.7], [0.1, 0.9, 0.3], test=20),
        made_row("SLT Pa 3.0, round by MUC", [0.1, 0.5, 0.7], [0.1, 0.9, 0.3], test=15),
    ]  # fmt: skip
    chosen = {row["model"]: row.get("chosen") for row in slt._mark_chosen(rows) if row["stage"] == "after"}
    assert chosen == {
        "BASE": None,
        "SLT": "structured:pair_f1",
        "SLT P1 1.5": "biased:pair_f1",
        "SLT Pa 3.0": None,
        "SLT Pa 3.0, round by MUC": "structured:muc_f1 biased:muc_f1",
    }
    check_chosen(rows[1:])
    alike = [made_row(model, [0.1, 0.5], [0.1, 0.5], test=0) for model in ("SLT", "SLT P1 1.5", "SLT Pa 3.0")]
    assert [row.get("chosen") for row in slt._mark_chosen(alike)] == [
        "structured:pair_f1 structured:muc_f1", "biased:pair_f1 biased:muc_f1", None,
    ]  # fmt: skip


# -- LitBank and GUM


def test_rows_of_litbank(data: Path):
    told: list[str] = []
    report = slt_litbank.slt_litbank(data, told.append, 1)
    own = check_tables(as_json(report, "slt-litbank"), ["LitBank"], [*LOCAL, *STRUCTURED, *MARGIN])
    assert len(told) == 1 + sum(row["stage"] == "after" for row in own) and told[0].startswith("LitBank: ")
    assert report.shown == slt.SHOWN
    by_model = {row["model"]: row for row in own if row["stage"] == "after"}
    assert by_model["SLT"]["f1"] > 30, "names can be told apart in this world"
    everything = kf.read_coref(data / "mentions" / "litbank" / "litbank.tar.gz")
    train, test = everything.take_groups(range(80)), everything.take_groups(range(80, 100))
    assert train.group_names[0] == "1000_novel_brat" and test.group_names[0] == "1080_novel_brat"
    for name, settings in {"SLT": {}, "SLT P1 3.0": {"bias": kf.Bias("closest", 3.0)}}.items():
        linker = kf.Linker(keep_local=False, n_jobs=1, **settings).fit(train)
        found = linker.evaluate(test)
        assert by_model[name]["round"] == linker.best_round_
        check_one_model(by_model[name], found)
        if name + BY_MUC in by_model:
            other = by_model[name + BY_MUC]
            check_one_model(other, linker.at_round(other["round"]).evaluate(test))
    check_one_model(by_model["ranking"], kf.Linker(training="ranking", n_jobs=1).fit(train).evaluate(test))
    nothing = by_model[slt.NOTHING]
    assert nothing["recall"] == nothing["muc_f1"] == 0 and nothing["error"] > 0


def check_one_model(row: dict[str, Any], found: dict[str, Any]) -> None:
    """All figures of a row are of the same clusters."""
    assert [row[key] for key in FIGURES] == pytest.approx([100 * found["pairs"][key] for key in FIGURES])
    assert [row[key] for key in MUC] == pytest.approx([100 * found["muc"][key.partition("_")[2]] for key in MUC])
    assert row["conll"] == pytest.approx(100 * found["conll"])


@pytest.fixture
def parts_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an experiment hands to `tables`: data set -> training and test documents."""

    def asked(run: Any, data: Path) -> dict[str, tuple[list[str], list[str]]]:
        monkeypatch.setattr(slt, "tables", lambda run, parts: parts)
        parts = run(data, quiet, 1).rows
        return {name: (list(train.group_names), list(test.group_names)) for name, train, test in parts}

    return asked


def test_the_documents_of_litbank(data: Path, parts_of: Any):
    """By file name, whatever their order in the archive."""
    names = [f"{1000 + k}_novel_brat" for k in range(100)]
    assert parts_of(slt_litbank.slt_litbank, data) == {"LitBank": (names[:80], names[80:])}


def test_the_documents_of_gum(data: Path, parts_of: Any):
    """Those of the split, without reddit; news by themselves too."""
    found = parts_of(slt_gum.slt_gum, data)
    assert list(found) == ["GUM", "GUM news"]
    for part, name in enumerate(("train", "test")):
        wanted = sorted(d for d in SPLIT[name] if "reddit" not in d)
        assert found["GUM"][part] == wanted
        assert found["GUM news"][part] == [d for d in wanted if d.startswith("GUM_news")]
    assert len(found["GUM"][0]) == 10 and len(found["GUM"][1]) == 3


def test_rows_of_gum(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slt, "BIASES", [("P1", 1.5), ("Pa", 3.0)])
    rows = as_json(slt_gum.slt_gum(data, quiet, 1), "slt-gum")
    local, structured = ["BASE", "BASE P1 1.5", "BASE Pa 3.0"], ["SLT", "SLT P1 1.5", "SLT Pa 3.0"]
    margin = ["SLT P1 1.5 margin", "SLT Pa 3.0 margin"]
    check_tables(rows, ["GUM", "GUM news"], [*local, *structured, *margin])


def test_documents_where_the_local_model_leaves_nothing_to_ask_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Structured training then ends with the local round, which is the only one to choose."""
    monkeypatch.setattr(slt, "BIASES", [("Pa", 1.5)])
    for k in range(30):
        text, notes = litbank_document(f"d{k:02}", some_mentions(np.random.default_rng(k), 6, 0.0))
        (tmp_path / f"d{k:02}.conll").write_text(text)
        (tmp_path / f"d{k:02}.ann").write_text(notes)
    everything = kf.read_coref(tmp_path)
    parts = [("easy", everything.take_groups(range(20)), everything.take_groups(range(20, 30)))]
    own = check_tables(
        as_json(experiment("slt-easy", ())(lambda run: slt.tables(run, parts))(tmp_path, quiet, 1), "slt-easy"),
        ["easy"],
        ["BASE", "BASE Pa 1.5", "SLT", "SLT Pa 1.5", "SLT Pa 1.5 margin"],
    )
    slt_row = next(row for row in own if row["model"] == "SLT" and row["stage"] == "after")
    assert len(slt_row["rounds"]) == 1 and slt_row["round"] == 0


def test_read_split(tmp_path: Path):
    path = tmp_path / "splits.md"
    path.write_text(split_text(SPLIT))
    assert slt_gum.read_split(path) == SPLIT
    path.write_text("* GUM_essay_one\n## train\n* GUM_essay_two\n")
    with pytest.raises(InputError, match=r"splits\.md: expected headings train and test; got train"):
        slt_gum.read_split(path)
    path.write_text("# Splits\n")
    with pytest.raises(InputError, match="got none"):
        slt_gum.read_split(path)


def test_a_document_that_is_not_there_is_named(tmp_path: Path):
    write_gum(tmp_path, missing="GUM_essay_two")
    with pytest.raises(InputError, match=r"gum\.tar\.gz: .*'GUM_essay_two'"):
        slt_gum.slt_gum(tmp_path, quiet, 1)


# -- records


@pytest.fixture(scope="module")
def records(data: Path) -> Path:
    return data / "mentions" / "records"


@pytest.mark.parametrize("one", slt_records.SETS, ids=lambda one: one.name)
def test_halves(one: slt_records.RecordSet, records: Path):
    """No entity is split, no record lost or in both; the seed says which entities go where."""
    items = one.read(records)
    titles = [items.name(i) for i in range(items.n_items)]
    first, second = slt_records.halves(items, 0)
    assert not set(first.clusters.tolist()) & set(second.clusters.tolist())
    names = [[half.name(i) for i in range(half.n_items)] for half in (first, second)]
    assert sorted([*names[0], *names[1]]) == sorted(titles) and len(set(titles)) == len(titles)
    assert first.n_true_pairs + second.n_true_pairs == items.n_true_pairs > 0
    counts = [len(set(half.clusters.tolist())) for half in (first, second)]
    assert counts[1] - counts[0] in (0, 1)
    again, _ = slt_records.halves(items, 0)
    np.testing.assert_array_equal(again.clusters, first.clusters)
    assert [again.name(i) for i in range(again.n_items)] == names[0]
    other, _ = slt_records.halves(items, 1)
    assert set(other.clusters.tolist()) != set(first.clusters.tolist())
    if items.first_table is not None:
        assert first.first_table + second.first_table == items.first_table


def test_rows_of_records(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slt_records, "SPLITS", 2)
    monkeypatch.setattr(choosing, "FOLDS", 2)
    out = tmp_path / "rows.json"
    command = ["reproduce", "slt-records", "--data", str(data), "--json", str(out), "--jobs", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_text())
    assert list(report) == ["experiment", "rows", "seconds", "settings"] and report["experiment"] == "slt-records"
    settings, rows = report["settings"], report["rows"]
    names = [one.name for one in slt_records.SETS]
    assert names == [
        "FEBRL 1", "FEBRL 2", "FEBRL 3", "restaurants", "Cora references", "DBLP-ACM", "Abt-Buy",
    ]  # fmt: skip
    assert (settings["splits"], settings["folds"]) == (2, "auto")
    assert settings["blocking"] == {one.name: list(one.rules) for one in slt_records.SETS}
    assert settings["clusterer"] == "auto"
    check_figures(rows)
    nothing = [row for row in rows if row["model"] == slt.NOTHING]
    assert [(row["dataset"], row["split"], row["f1"]) for row in nothing] == [
        *((name, split, 0.0) for name in names for split in ("seed 0", "seed 1", "mean")), (slt.ALL, "mean", 0.0),
    ]  # fmt: skip
    rows = check_all_seven([row for row in rows if row["model"] != slt.NOTHING], names)
    places = [(row["dataset"], row["split"], row["model"], row["stage"]) for row in rows]
    assert places == [
        (name, split, model, stage)
        for name in names
        for split in ("seed 0", "seed 1", "mean")
        for model in ("local", "structured", "ranking", "combined")
        for stage in ("before", "after")
    ]
    by_place = dict(zip(places, rows, strict=True))
    for (name, split, model, stage), row in by_place.items():
        after = stage == "after"
        assert 0 <= row["completeness"] <= 100 and ("cluster_f1" in row) == after
        assert ("threshold" in row) == ("kept_round" in row) == (after and split != "mean")
        if split != "mean":
            assert not after or 0 < row["threshold"] < 1
            assert not after or model == "structured" or row["kept_round"] == 0
            continue
        seeds = [by_place[name, f"seed {seed}", model, stage] for seed in range(2)]
        for key in (*FIGURES, "completeness", *(["cluster_f1"] if after else [])):
            assert row[key] == pytest.approx(np.mean([one[key] for one in seeds]))
    assert by_place["FEBRL 3", "mean", "local", "after"]["f1"] > 50, "records can be linked in this world"
    for name in names:
        assert f"{name}, structured, seed 1" in result.output and name in result.output


def check_all_seven(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """The rows without the means over all sets, which are looked at; no interval leaves 0 to 100."""
    for row in rows:
        assert ("lower" in row) == (row["split"] == "mean" and row["stage"] == "after")
        assert "lower" not in row or 0 <= row["lower"] <= row["upper"] <= 100
        assert ("gain" in row) == (row["split"] == "mean" and row["model"] != "local")
    over_all = [row for row in rows if row["dataset"] == slt.ALL]
    assert [row["model"] for row in over_all] == list(slt.TRAININGS)
    for row in over_all:
        place = (row["model"], "mean", "after")
        own = [one for one in rows if (one["model"], one["split"], one["stage"]) == place and one is not row]
        assert [one["dataset"] for one in own] == names
        assert row["f1"] == pytest.approx(np.mean([one["f1"] for one in own]))
    return rows[: -len(over_all)]


@given(st.data())
def test_counts_of_entities_add_up_to_the_pair_f1_of_each_half(drawn: st.DataObject):
    """Beside a loop over all pairs; of weighed entities a wrong link counts half for each of its two."""
    n = drawn.draw(st.integers(2, 9))
    truth, found = (np.array(drawn.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))) for _ in range(2))
    none = np.empty(0, np.int32)
    items = kf.Mentions({}, np.zeros(n, np.int32), none, none, truth.astype(np.int32))
    counts = slt_records.EntityCounts(items)
    counts.add(items, found)
    weight = np.array(drawn.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4)))
    right = true = guess = 0.0
    for i in range(n):
        for j in range(i):
            mean = (weight[truth[i]] + weight[truth[j]]) / 2
            right += mean * (truth[i] == truth[j]) * (found[i] == found[j])
            true += mean * (truth[i] == truth[j])
            guess += mean * (found[i] == found[j])
    expected = 200 * right / (true + guess) if true + guess else 0.0
    (table,) = counts.tables
    assert slt_records.mean_f1(weight[np.unique(truth)] @ table) == pytest.approx(expected)
    twice = np.hstack([table, np.zeros_like(table)]).sum(axis=0)
    assert slt_records.mean_f1(twice) == pytest.approx(slt_records.mean_f1(table.sum(axis=0)) / 2)


def test_rows_of_one_set_by_hand(data: Path, records: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slt_records, "SPLITS", 1)
    monkeypatch.setattr(choosing, "FOLDS", 2)
    one = slt_records.SETS[2]
    rows = slt_records._record_rows(Run(data, quiet, 1), one)
    train, test = (kf.block(half, one.rules) for half in slt_records.halves(one.read(records), 0))
    linker = kf.Linker(n_jobs=1).fit(train)
    found = linker.evaluate(test)
    after = next(row for row in rows if row["model"] == "structured" and row["stage"] == "after")
    assert [after[key] for key in FIGURES] == pytest.approx([100 * found["pairs"][key] for key in FIGURES])
    assert after["threshold"] == linker.clusterer_.threshold and after["kept_round"] == linker.best_round_
    both = (test.pair_labels == 1).sum() / test.n_true_pairs
    assert after["completeness"] == pytest.approx(100 * both)
    means = {(row["model"], row["stage"]): row for row in rows if row["split"] == "mean"}
    for row in rows[:4]:
        mean = means[row["model"], row["stage"]]
        assert all(mean[key] == row[key] for key in FIGURES), "one split is its own mean"


# -- the real data


@pytest.mark.data
def test_febrl_1_is_linked_without_a_fault(data_folder: Path):
    folder = data_folder / "mentions" / "records"
    if not (folder / "febrl" / "dataset1.csv").is_file():
        pytest.skip(f"no FEBRL files in {folder}; set KINFOLK_DATA")
    rows = slt_records._record_rows(Run(data_folder, quiet, 1), slt_records.SETS[0])
    for row in rows:
        if row["split"] == "mean" and row["model"] != slt.NOTHING:
            assert row["completeness"] > 99
            assert row["stage"] == "before" or row["f1"] >= 99.9


@pytest.mark.data
def test_the_split_of_gum(data_folder: Path):
    path = data_folder / "mentions" / "gum" / "splits.md"
    if not path.is_file():
        pytest.skip(f"no GUM in {path.parent}; set KINFOLK_DATA")
    split = slt_gum.read_split(path)
    assert [len(split[name]) for name in ("train", "dev", "test")] == [191, 32, 32]
    documents = [d for name in ("train", "dev", "test") for d in split[name]]
    assert len(set(documents)) == 255 and all(d.startswith("GUM_") for d in documents)
    assert all(("_news" in d) == d.startswith("GUM_news_") for d in documents), "a genre is told by the name alone"
