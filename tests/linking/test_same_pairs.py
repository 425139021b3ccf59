"""A pair has one probability, whatever table its records stand in: what comparisons count is counted in training."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import ModelFileError
from kinfolk.linking.comparisons import KINDS
from kinfolk.linking.pair_table import PairSet

FILE = "m.kinfolk"
WORDS = [f"{a}{b}" for a in ("bel", "cor", "dun", "eve", "fal", "gor") for b in ("a", "in", "ost", "ur", "y", "ek")]


def same_start(one: str, other: str) -> float:
    return float(one[:2] == other[:2])


COMPARISONS: dict[str, Any] = {
    "Exact": kf.Exact("name"),
    "Rarity": kf.Rarity("shelf"),
    "JaroWinkler": kf.JaroWinkler("name"),
    "Edit": kf.Edit("name"),
    "TokenOverlap": kf.TokenOverlap("name"),
    "TfidfCosine": kf.TfidfCosine("name"),
    "TfidfCosine of characters": kf.TfidfCosine("name", 3),
    "TfidfCosine of two fields": kf.TfidfCosine(["name", "model"]),
    "NumberDifference": kf.NumberDifference("price", relative=True),
    "DateDifference": kf.DateDifference("born"),
    "SharedCodes": kf.SharedCodes("model"),
    "Numbers": kf.Numbers("model"),
    "Cosine": kf.Cosine("picture"),
    "AnyOf": kf.AnyOf(kf.TfidfCosine("model", 2), "-"),
    "PairFunction": kf.PairFunction(same_start, "name"),
}
# what else is a candidate is a property of the table: these need the candidates that a record has in it
OF_CANDIDATES: dict[str, Any] = {
    "BestOf of words": kf.BestOf(kf.TfidfCosine("name")),
    "BestOf of characters": kf.BestOf(kf.TfidfCosine("name", 2)),
    "BestOf of edits": kf.BestOf(kf.Edit("name")),
}


def test_every_comparison_of_the_library_is_tried():
    assert {*KINDS, "PairFunction", "AnyOf"} == {name.partition(" ")[0] for name in COMPARISONS}


@functools.cache
def shop(seed: int, n: int = 90) -> kf.Mentions:
    """Things in a shop, twice each, with mistakes; some words are far more common than others, days come first."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, len(WORDS) + 1)
    rows: list[dict[str, Any]] = []
    for thing in range(n):
        words = list(rng.choice(WORDS, int(rng.integers(2, 6)), p=share / share.sum()))
        day, month, price = int(rng.integers(1, 29)), int(rng.integers(1, 13)), float(rng.integers(5, 500))
        model = f"{rng.choice(['ax', 'b', 'zz'])}-{rng.integers(10, 40)} {rng.integers(1, 9)}.5"
        for copy in range(2):
            told = [w[:-1] if copy and rng.random() < 0.2 else w for w in words if not copy or rng.random() < 0.8]
            late = int(copy and rng.random() < 0.3)
            rows.append({
                "thing": thing, "name": " ".join(told) or None, "born": f"{day + late}/{month}/1990",
                "price": price + late, "model": model if rng.random() < 0.8 else None, "shelf": words[0],
                "picture": [price + late, float(day), float(month)],
            })  # fmt: skip
    order = rng.permutation(len(rows))
    fields = ("name", "born", "price", "model", "shelf", "picture")
    columns: dict[str, Any] = {key: [rows[k][key] for k in order] for key in fields}
    none = np.empty(0, np.int32)
    return kf.Mentions(columns, np.zeros(len(rows), np.int32), none, none, clusters=[rows[k]["thing"] for k in order])


@functools.cache
def fitted(name: str) -> kf.Linker:
    everything = {**COMPARISONS, **OF_CANDIDATES}
    rules = "key(shelf)" if name in OF_CANDIDATES else None
    linker = kf.Linker([everything[name]], rules, training="local", bins=20, binning="quantile", n_jobs=1)
    return linker.fit(shop(0))


def matrix(linker: kf.Linker, items: kf.Mentions, numbers: NDArray[Any], size: int) -> NDArray[np.float64]:
    """(size, size) of the probabilities of pairs, NaN for those that are no candidates; numbers[i] is item i there."""
    paired = linker.candidates(items)
    found = np.full((size, size), np.nan)
    a, b, p = numbers[paired.left], numbers[paired.right], linker.predict_proba(paired)
    found[a, b] = found[b, a] = p
    return found


def in_other_order(items: kf.Mentions, order: NDArray[Any]) -> kf.Mentions:
    def taken(column: Any) -> Any:
        return column.take(order) if isinstance(column, kf.Column) else column[order]

    none = np.empty(0, np.int32)
    return kf.Mentions({name: taken(c) for name, c in items.columns.items()}, items.groups, none, none)


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_same_pairs_within_a_part_of_the_table_or_in_another_order(name: str):
    linker, whole = fitted(name), shop(1)
    n = whole.n_items
    wanted = matrix(linker, whole, np.arange(n), n)
    assert len(np.unique(wanted[~np.isnan(wanted)])) > 1, "the comparison tells pairs apart"
    rng, born = np.random.default_rng(2), whole.columns["born"]
    assert isinstance(born, kf.Column)
    early = np.array([int(date.partition("/")[0]) <= 12 for date in born.strings()])  # which number is the month?
    for part in (*(np.sort(rng.choice(n, size, replace=False)) for size in (2, n // 8, n // 2)), np.flatnonzero(early)):
        found = matrix(linker, whole.take(part), part, n)
        assert (~np.isnan(found)).sum() == len(part) * (len(part) - 1)
        np.testing.assert_array_equal(found[np.ix_(part, part)], wanted[np.ix_(part, part)])
    order = rng.permutation(n)
    np.testing.assert_array_equal(matrix(linker, in_other_order(whole, order), order, n), wanted)


@pytest.mark.parametrize("name", OF_CANDIDATES)
def test_the_same_pairs_among_the_same_candidates(name: str):
    """A part of the table with all candidates of its records: some of the shelves."""
    linker, whole = fitted(name), shop(1)
    n = whole.n_items
    wanted = matrix(linker, whole, np.arange(n), n)
    shelf = whole.columns["shelf"]
    assert isinstance(shelf, kf.Column)
    for kept in ([0], [1, 2], [0, 3, 4, 5]):
        part = np.flatnonzero(np.isin(shelf.codes, kept))
        found = matrix(linker, whole.take(part), part, n)
        assert not np.isnan(found).all()
        np.testing.assert_array_equal(found[part], wanted[part])
    order = np.random.default_rng(3).permutation(n)
    np.testing.assert_array_equal(matrix(linker, in_other_order(whole, order), order, n), wanted)


# -- files --------------------------------------------------------------------------------------------

COUNTING = ["TfidfCosine", "TfidfCosine of characters", "TfidfCosine of two fields", "DateDifference", *OF_CANDIDATES]


@pytest.mark.parametrize("name", COUNTING)
def test_what_was_counted_is_kept_in_the_model_file(name: str, tmp_path: Path):
    linker, few = fitted(name), shop(1).take(np.arange(30))
    linker.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE)
    np.testing.assert_array_equal(loaded.predict_proba(few), linker.predict_proba(few))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()
    trained_again = loaded.fit(shop(3))
    fresh = kf.Linker(linker.features, linker.blocking, training="local", bins=20, binning="quantile").fit(shop(3))
    np.testing.assert_array_equal(trained_again.predict_proba(few), fresh.predict_proba(few))


def rewritten(linker: kf.Linker, folder: Path, change: Any) -> Path:
    linker.save(folder / FILE)
    file = read_model_file(folder / FILE)
    header, arrays, strings = file.header, dict(file.arrays), dict(file.strings)
    change(header, arrays, strings)
    write_model_file(folder / FILE, header, arrays, strings)
    return folder / FILE


def without_statistics(header: Any, arrays: Any, strings: Any) -> None:
    del header["linker"]["statistics"]
    for kept in (arrays, strings):
        for key in [key for key in kept if key.startswith("statistics.")]:
            del kept[key]


def test_a_file_without_counts_counts_the_table_at_hand(tmp_path: Path):
    """As models did that were written before counts were kept."""
    linker, whole = fitted("TfidfCosine"), shop(1)
    old = kf.load_model(rewritten(linker, tmp_path, without_statistics))
    here = PairSet([COMPARISONS["TfidfCosine"]], linker.pair_set_.columns, [])
    for items in (old.candidates(whole), old.candidates(whole.take(np.arange(20)))):
        codes = here.coder(items)(items.left, items.right)[:, 0]
        np.testing.assert_array_equal(old.decision_function(items), old.calibration_(old.weights_[codes]))
        assert not np.array_equal(old.decision_function(items), linker.decision_function(items))


DAMAGE = {
    "too few counts": lambda h, a, s: a.update({"statistics.0.counts": a["statistics.0.counts"][1:]}),
    "counts of more items than there were": lambda h, a, s: h["linker"]["statistics"][0].update(n=1),
    "no number of items": lambda h, a, s: h["linker"]["statistics"][0].pop("n"),
    "a word twice": lambda h, a, s: s["statistics.0.tokens"].__setitem__(1, s["statistics.0.tokens"][0]),
    "no words": lambda h, a, s: s.pop("statistics.0.tokens"),
    "statistics of another feature": lambda h, a, s: h["linker"]["statistics"].append(None),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_counts_that_do_not_fit_together(change: Any, tmp_path: Path):
    with pytest.raises(ModelFileError):
        kf.load_model(rewritten(fitted("TfidfCosine"), tmp_path, change))
