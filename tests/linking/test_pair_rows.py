"""Distinct rows of codes beside np.unique; bins, conjunctions and weight numbers of a learned pair set."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.linking import pair_table as pair_rows
from kinfolk.linking import pair_table as pair_set
from kinfolk.linking.comparisons import Exact, JaroWinkler
from kinfolk.linking.mentions import Mentions, pairs_within
from kinfolk.linking.pair_table import CodedColumn, PairSet, distinct_rows, joined_columns, pair_scores
from kinfolk.linking.pairs import PairColumn, PairFeature, number_column

EXAMPLES = settings(max_examples=80, deadline=None)


def rows_of(codes, sizes, n_jobs=1, chunk=None, **told):
    """Distinct rows of a table of codes: pair k is (k, k + 1) and has row k."""
    number = np.arange(len(codes), dtype=np.int32)
    return distinct_rows(lambda left, right: codes[left], number, number + 1, sizes, n_jobs, **told)


def assert_distinct(found, codes):
    assert found.codes.dtype == np.uint8 and found.row.dtype == np.int32
    np.testing.assert_array_equal(found.codes[found.row], codes)
    distinct, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)  # rows are numbered as they come
    np.testing.assert_array_equal(found.codes, distinct[order])
    np.testing.assert_array_equal(found.counts, counts[order])


@EXAMPLES
@given(
    sizes=st.lists(st.sampled_from([1, 2, 3, 9, 121, 256]), min_size=1, max_size=20),
    n=st.integers(0, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_distinct_rows(sizes, n, seed):
    rng = np.random.default_rng(seed)
    kinds = np.stack([rng.integers(0, size, 5) for size in sizes], axis=1).astype(np.uint8)
    codes = kinds[rng.integers(0, 5, n)]
    if n:
        assert_distinct(rows_of(codes, sizes), codes)


@pytest.mark.parametrize("sizes", [[256] * 8 + [1, 2], [256] * 40, [16] * 16 + [256], [2] * 70, [121] * 9 + [1]])
def test_rows_of_many_columns(sizes):
    """More than 64 bits a row, columns that end with a word, and a column without bits after a full word."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 3000) for size in sizes], axis=1).astype(np.uint8)
    codes = np.concatenate([codes, codes[::3], np.array([sizes], int).astype(np.uint8) - np.uint8(1)])
    assert_distinct(rows_of(codes, sizes), codes)


def test_rows_differ_in_any_one_column():
    codes = np.eye(70, dtype=np.uint8)
    assert rows_of(codes, [2] * 70).row.tolist() == list(range(70))


@pytest.mark.parametrize("n_rows", [2048, 2049, 50_000])
def test_the_table_grows(n_rows):
    rng = np.random.default_rng(1)
    number = np.arange(n_rows)
    kinds = np.stack([number % 256, number // 256 % 256, number // 65536], axis=1).astype(np.uint8)
    codes = np.concatenate([kinds, kinds[rng.permutation(n_rows)]])
    found = rows_of(codes, [256, 256, 256])
    assert len(found.codes) == n_rows
    assert_distinct(found, codes)


def test_chunks_and_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 6, (5000, 5)).astype(np.uint8)
    whole = rows_of(codes, [6] * 5)
    monkeypatch.setattr(pair_rows, "CHUNK", 300)
    for n_jobs in (1, 2, 3):
        ticks = []
        found = rows_of(codes, [6] * 5, n_jobs, tick=ticks.append)
        np.testing.assert_array_equal(found.codes, whole.codes)
        np.testing.assert_array_equal(found.row, whole.row)
        assert ticks[-1] == 5000 and ticks == sorted(ticks)
    assert_distinct(whole, codes)


def test_totals():
    codes = np.array([[1], [0], [1], [1]], np.uint8)
    found = rows_of(codes, [2])
    assert found.totals(np.array([1.0, 2.0, 3.0, 0.5])).tolist() == [4.5, 2.0]


def test_no_pairs():
    found = rows_of(np.empty((0, 3), np.uint8), [2, 3, 4])
    assert found.codes.shape == (0, 3) and found.row.shape == (0,)
    assert found.counts.shape == (0,) and found.totals(np.empty(0)).shape == (0,)


# -- pair sets ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told(PairFeature):
    """Answers as they are given, one a pair, for pairs (0, 1), (0, 2), (0, 3) ..."""

    answers: np.ndarray
    columns: tuple[PairColumn, ...] = (PairColumn("x"),)

    def of(self, items):
        return lambda left, right: self.answers[right - 1].reshape(len(left), -1)

    def spec(self):
        return {}


def star(n_pairs, labels=None):
    """Items whose pairs are (0, k), with labels in order."""
    right = np.arange(1, n_pairs + 1)
    clusters = None
    if labels is not None:
        clusters = np.concatenate(
            [[0], np.where(np.asarray(labels) == 1, 0, np.where(np.asarray(labels) < 0, -1, right))]
        )
    return Mentions({}, np.zeros(n_pairs + 1, np.int32), np.zeros(n_pairs, np.int32), right, clusters=clusters)


def learned(values, labels, **told):
    return PairSet.learn([Told(np.asarray(values, float))], star(len(values), labels), **told)


def codes_of(found, items):
    return found.coder(items)(items.left, items.right)


def test_learned_bins_lie_where_labels_change():
    values = np.arange(90) / 100
    labels = (values > 0.3) & (values < 0.6)
    found = learned(values, labels, bins=3)
    np.testing.assert_allclose(found.columns[0].edges, [0.305, 0.595], atol=1e-6)
    assert found.columns[0].values == ("missing", "below 0.305", "0.305 to 0.595", "0.595 or more")
    codes = codes_of(found, star(90))[:, 0]
    assert codes.tolist() == [1] * 31 + [2] * 29 + [3] * 30


def test_few_labels_have_thirds_and_the_best_cut():
    values, labels = np.arange(12.0), np.arange(12) > 9
    np.testing.assert_allclose(learned(values, labels).columns[0].edges, [11 / 3, 22 / 3, 9.5])
    np.testing.assert_allclose(learned(values, labels, bins=2).columns[0].edges, [9.5])
    rare = learned([0.0] * 16 + [1.0] * 4, [0] * 16 + [1] * 4).columns[0].edges
    np.testing.assert_allclose(rare, [0.5], err_msg="quantiles see one value")
    gap = learned([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]).columns[0].edges
    np.testing.assert_allclose(gap, [0.2, 0.5, 0.8], err_msg="what lies between yes and no is a bin of its own")
    items = replace(star(4, [1, 1, 0, 0]), columns={"name": Column.from_strings(["x", "x", "x", "y", "z"])})
    assert PairSet.learn([Exact("name")], items).columns[0].values == ("missing", "different", "equal")


def test_quantile_bins_hold_equal_numbers():
    values = np.arange(100.0)
    found = learned(values, [0, 1] * 50, bins=4, binning="quantile")
    codes = codes_of(found, star(100))[:, 0]
    assert np.bincount(codes).tolist() == [0, 25, 25, 25, 25]
    skewed = learned([0.0] * 90 + [1.0] * 5 + [2.0] * 5, [0, 1] * 50, bins=20, binning="quantile")
    codes = codes_of(skewed, star(100))[:, 0]
    assert np.bincount(codes)[1] == 90, "a value that fills several bins has one"
    rare = learned([0.0] * 98 + [1.0] * 2, [0, 1] * 50, bins=4, binning="quantile")
    assert np.bincount(codes_of(rare, star(100))[:, 0]).tolist() == [0, 98, 2], "one that fills all leaves the others"


@pytest.mark.parametrize("binning", ["learned", "quantile"])
def test_missing_values_have_a_code_of_their_own(binning):
    values = np.where(np.arange(60) % 3 == 0, np.nan, np.arange(60.0))
    found = learned(values, np.arange(60) > 30, bins=4, binning=binning)
    codes = codes_of(found, star(60))[:, 0]
    np.testing.assert_array_equal(codes == 0, np.isnan(values))
    assert found.columns[0].values[0] == "missing"
    assert np.isfinite(found.columns[0].edges).all()


@pytest.mark.parametrize("binning", ["learned", "quantile"])
@pytest.mark.parametrize("values", [[2.0] * 30, [np.nan] * 30, [2.0, np.nan] * 15], ids=["constant", "none", "some"])
def test_a_column_of_one_value_is_known_or_missing(values, binning):
    found = learned(values, [0, 1, 1] * 10, binning=binning)
    assert found.columns[0].values == ("missing", "known")
    np.testing.assert_array_equal(codes_of(found, star(30))[:, 0], np.where(np.isnan(values), 0, 1))


@pytest.mark.parametrize("binning", ["learned", "quantile"])
def test_one_bin_is_one_bin(binning):
    assert learned(np.arange(40.0), np.arange(40) > 20, bins=1, binning=binning).columns[0].values == (
        "missing",
        "known",
    )


@pytest.mark.parametrize("binning", ["learned", "quantile"])
def test_infinite_values_go_to_the_ends(binning):
    values = np.concatenate([[np.inf, -np.inf, np.nan], np.arange(60.0)])
    found = learned(values, np.arange(63) > 30, bins=4, binning=binning)
    codes = codes_of(found, star(63))[:, 0]
    assert codes[:3].tolist() == [codes.max(), 1, 0] and np.isfinite(found.columns[0].edges).all()


def test_a_value_on_an_edge_is_above_it():
    column = CodedColumn.binned("x", np.array([0.5, 1.0]))
    found = PairSet([Told(np.array([0.4999, 0.5, 0.9, 1.0, 7.0]))], [column], [])
    assert codes_of(found, star(5))[:, 0].tolist() == [1, 2, 2, 3, 3]
    assert column.values == ("missing", "below 0.5", "0.5 to 1", "1 or more")


@EXAMPLES
@given(seed=st.integers(0, 1000), bins=st.integers(1, 30), binning=st.sampled_from(["learned", "quantile"]))
def test_edges_rise_and_bins_are_no_more_than_asked_for(seed, bins, binning):
    rng = np.random.default_rng(seed)
    values = rng.choice([rng.normal(size=80), rng.integers(0, 4, 80).astype(float)])
    edges = learned(values, rng.integers(0, 2, 80), bins=bins, binning=binning).columns[0].edges
    assert (np.diff(edges) > 0).all() and len(edges) < max(bins, 1)


def test_bins_follow_known_pairs_alone():
    values = np.concatenate([np.arange(60.0), np.full(40, 1e6)])
    labels = np.concatenate([np.arange(60) > 30, np.full(40, -1)])
    assert learned(values, labels, bins=8, binning="quantile").columns[0].edges.max() < 60
    with pytest.raises(InputError, match="no candidate pair with a known answer"):
        learned(values[:5], [-1] * 5)


def test_a_sample_has_the_true_pairs(monkeypatch):
    monkeypatch.setattr(pair_set, "SAMPLE", 200)

    def sampled(truth):
        items = star(5000, truth)
        return pair_set._sample(items, items.pair_labels, 0)

    labels = np.zeros(5000, int)
    labels[::100] = 1
    _, right, told = sampled(labels)
    assert told.sum() == 50 and 150 <= len(told) <= 200
    np.testing.assert_array_equal(told, labels[right - 1])
    again = sampled(labels)
    np.testing.assert_array_equal(right, again[1])
    assert sampled(1 - labels)[2].mean() < 1, "where most are true there are others too"


# -- conjunctions and weights -------------------------------------------------------------------------


KINDS = (PairColumn("a", ("no", "yes")), PairColumn("b", ("x", "y", "z")), PairColumn("c", ("one",)))


def three(codes, conjunctions):
    return PairSet.learn(
        [Told(np.asarray(codes), KINDS)], star(len(codes), [0] * len(codes)), conjunctions=conjunctions
    )


CONJUNCTIONS = [None, "all", [("b", "a")], [("a", "b"), ("c", "b"), ("a", "a")]]


@pytest.mark.parametrize("conjunctions", CONJUNCTIONS)
def test_weights_and_their_names_line_up(conjunctions):
    codes = np.array([(a, b, 0) for a in range(2) for b in range(3)])
    found = three(codes, conjunctions)
    names = found.weight_names()
    assert len(names) == len(set(names)) == found.n_weights
    joined = {None: [], "all": [(0, 1), (0, 2), (1, 2)]}.get(conjunctions if isinstance(conjunctions, str) else None)
    if isinstance(conjunctions, list):
        joined = [("abc".index(x), "abc".index(y)) for x, y in conjunctions]
    assert list(found.joined) == joined
    index = found.weights_on(codes_of(found, star(len(codes))))
    assert index.dtype == np.int32 and index.shape == (6, 3 + len(joined))
    for row, on in zip(codes, index, strict=True):
        own = [f"{column.name}: {column.values[code]}" for column, code in zip(KINDS, row, strict=True)]
        assert [names[k] for k in on] == own + [f"{own[a]} & {own[b]}" for a, b in joined]
    assert len(np.unique(index[:, :2])) == 5, "no two values share a weight"


def test_conjunctions_of_columns_that_are_not_there():
    with pytest.raises(SettingError, match="no column 'd' for a conjunction; the columns are a, b, c"):
        joined_columns([("a", "d")], ["a", "b", "c"])
    with pytest.raises(SettingError, match=r'None, "all" or a list of pairs'):
        joined_columns("some", ["a"])


def test_two_columns_of_a_name():
    values = np.zeros(30)
    with pytest.raises(SettingError, match="two pair features are named 'x'"):
        PairSet.learn([Told(values), Told(values)], star(30, [0, 1] * 15))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"bins": 0}, "bins must lie between 1 and 200"),
        ({"bins": 201}, "bins must lie between 1 and 200"),
        ({"binning": "equal"}, '"learned" or "quantile"'),
    ],
)
def test_wrong_bins(told, message):
    with pytest.raises(SettingError, match=message):
        learned(np.arange(30.0), [0, 1] * 15, **told)


def test_as_many_bins_as_there_may_be():
    values = np.arange(1000.0)
    found = learned(values, values > 500, bins=200, binning="quantile")
    codes = codes_of(found, star(1000))[:, 0]
    assert codes.max() == 200 and codes.min() == 1 and (np.diff(codes.astype(int)) >= 0).all()


def test_comparisons_and_codes_side_by_side():
    names = Column.from_strings(["ann", "anne", None, "bob"] * 6)
    left, right = pairs_within(np.zeros(24, np.int32))
    items = Mentions({"name": names}, np.zeros(24, np.int32), left, right, clusters=np.arange(24) % 4)
    found = PairSet.learn([Exact("name"), JaroWinkler("name")], items, conjunctions="all")
    assert [column.name for column in found.columns] == ["exact(name)", "jaro_winkler(name)"]
    codes = codes_of(found, items)
    strings = names.strings()
    for i, j, (same, like) in zip(left, right, codes, strict=True):
        missing = strings[i] is None or strings[j] is None
        assert (same == 0) == (like == 0) == missing
        if not missing:
            assert found.columns[0].values[same] == ("equal" if strings[i] == strings[j] else "different")
    one_by_one = np.concatenate([found.coder(items)(left[[k]], right[[k]]) for k in range(0, len(left), 7)])
    np.testing.assert_array_equal(codes[::7], one_by_one)


# -- columns of items ---------------------------------------------------------------------------------


def test_columns_as_numbers():
    columns = {
        "price": Column.from_strings(["$1,200.50", None, "free", " 7 ", "-3"]),
        "age": np.array([1, np.nan, 2.5, 0, 1e6]),
    }
    items = Mentions(columns, np.zeros(5, np.int32), [], [])
    np.testing.assert_array_equal(number_column(items, "price"), [1200.5, np.nan, np.nan, 7, -3])
    np.testing.assert_array_equal(number_column(items, "age"), columns["age"])
    with pytest.raises(InputError, match="no column 'size' to compare; the items have 'price', 'age'"):
        number_column(items, "size")
    with pytest.raises(InputError, match="the items have none"):
        number_column(Mentions({}, [], [], []), "size")


def test_numbers_of_a_column_without_values():
    items = Mentions({"price": Column.from_strings([None, None])}, [0, 0], [], [])
    assert np.isnan(number_column(items, "price")).all()


@EXAMPLES
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    joins=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3),
    n=st.integers(0, 40),
    chunk=st.sampled_from([1, 7, 1 << 17]),
    n_jobs=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_are_sums_of_the_weights_that_are_on(sizes, joins, n, chunk, n_jobs, seed):
    rng = np.random.default_rng(seed)
    joined = [(a % len(sizes), b % len(sizes)) for a, b in joins]
    columns = [CodedColumn(f"c{k}", tuple(f"v{j}" for j in range(size))) for k, size in enumerate(sizes)]
    both, number = PairSet([], columns, joined), np.arange(n, dtype=np.int32)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(np.uint8)
    weights = rng.standard_normal(both.n_weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_rows, "CHUNK", chunk)
        found = pair_scores(lambda left, right: codes[left], number, number + 1, both, weights, n_jobs)
    by_name = dict(
        zip(both.weight_names(), weights.tolist(), strict=False)
    )  # a name that comes twice has its own below
    wanted = []
    for row in codes.tolist():
        on = [f"c{k}: v{code}" for k, code in enumerate(row)]
        ends = both.offsets.tolist()[len(sizes) :]
        pairs = [weights[start + row[a] * sizes[b] + row[b]] for start, (a, b) in zip(ends, joined, strict=False)]
        wanted.append(sum([by_name[name] for name in on] + pairs))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("1250.5", 1250.5), ("1,250.50", 1250.5), ("1.250,50", 1250.5), ("1250,5", 1250.5), ("$1,250.50", 1250.5),
        (" 1250,50 € ", 1250.5), ("€ 1250.5", 1250.5), ("9,90", 9.9), ("1,250", 1250), ("12,500,000", 12_500_000),
        ("0,125", 0.125), ("-0,125", -0.125), ("-3,5", -3.5), ("1.250.000,5", 1_250_000.5), ("1e3", 1000),
        ("12 EUR", np.nan), ("1.2.3", np.nan), (",", np.nan), ("", np.nan),
    ],
)  # fmt: skip
def test_numbers_are_read_as_they_are_written_in_many_countries(written, number):
    items = Mentions({"price": Column.from_strings([written, "7"])}, [0, 0], [], [])
    np.testing.assert_array_equal(number_column(items, "price"), [number, 7])
