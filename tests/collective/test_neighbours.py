"""What neighbours say: each template beside plain loops, users' functions, sets of templates, files, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
import stacked_oracle as oracle
from kinfolk import Concat, Corpus, Count, Exists, Max, Mean, NeighbourFunction, Proportion, Relation, SameWord, Window
from kinfolk.collective.aggregate import side_by_side
from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.templates import (
    LogCount,
    NeighbourTemplate,
    TemplateSet,
    as_labels,
    as_templates,
    learned_strings,
    parse_template,
    rebuilt_template,
)
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.text.skip_edges import LearnedSkips, SkipFunction, learned_skips
from strategies import SEEDS

AGGREGATES: dict[type, Callable[..., np.ndarray]] = {
    LogCount: lambda relation, votes: np.log(1 + oracle.count(relation, votes)),
    Count: oracle.count, Mean: oracle.mean, Proportion: oracle.proportion, Max: oracle.maximum, Exists: oracle.exists,
}  # fmt: skip
KINDS = list(AGGREGATES)
EVERY_SAME_WORD = SameWord(capitalised=False, max_document_frequency=None, most_recent=None)


def apart(table: np.ndarray) -> np.ndarray:
    return table - np.diag(np.diag(table))


PATHS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "r": lambda r, s: r,
    "~r": lambda r, s: r.T,
    "r | s": np.maximum,
    "r @ s": oracle.compose,
    "~s @ (r | ~r)": lambda r, s: oracle.compose(s.T, np.maximum(r, r.T)),
}


@dataclass
class World:
    r: np.ndarray
    s: np.ndarray
    votes: np.ndarray
    rows: np.ndarray  # in any order, some twice

    @property
    def n(self) -> int:
        return len(self.r)

    def neighbourhood(self, n_jobs: int = 1, **more: Any) -> Neighbourhood:
        relations = {"r": sparse.csr_array(self.r), "s": sparse.csr_array(self.s)}
        return Neighbourhood(self.n, self.votes.shape[1], relations, n_jobs=n_jobs, **more)


def drawn_votes(rng: np.random.Generator, n: int, L: int, kind: str) -> np.ndarray:
    """Probabilities, or labels; some instances say nothing."""
    votes = rng.dirichlet(np.ones(L), n).reshape(n, L) if kind == "proba" else np.eye(L)[rng.integers(L, size=n)]
    votes[rng.random(n) < 0.2] = 0.0
    return votes


@st.composite
def worlds(draw: st.DrawFn, max_nodes: int = 6) -> World:
    n, L = draw(st.integers(0, max_nodes)), draw(st.integers(1, 3))
    density, kind = draw(st.sampled_from([0.0, 0.3, 0.8])), draw(st.sampled_from(["proba", "label"]))
    rng = np.random.default_rng(draw(SEEDS))
    r, s = (apart(np.where(rng.random((n, n)) < density, rng.integers(1, 9, (n, n)) / 4, 0.0)) for _ in "rs")
    rows = rng.integers(n, size=rng.integers(2 * n + 1)) if n else np.empty(0, np.int64)
    return World(r, s, drawn_votes(rng, n, L, kind), rows)


def labels_of(votes: np.ndarray) -> np.ndarray:
    """One-hot, silent where nothing is said."""
    return oracle.as_votes(votes, "label") * votes.any(axis=1, keepdims=True)


def told(template: NeighbourTemplate, neighbourhood: Neighbourhood, votes: np.ndarray, rows: Any = None) -> np.ndarray:
    """What the template writes after it learned; it may not rely on what stood there before."""
    learned = template.learn(neighbourhood)
    rows = np.arange(neighbourhood.n) if rows is None else rows
    out = np.full((len(rows), learned.width(votes.shape[1])), np.nan)
    learned.write(neighbourhood, votes, rows, out)
    return out


# -- each template says what plain loops say


@pytest.mark.parametrize("kind", KINDS)
@given(world=worlds(), path=st.sampled_from(list(PATHS)), hard=st.booleans())
def test_templates_are_exact(kind: Any, world: World, path: str, hard: bool):
    relation = PATHS[path](world.r, world.s)
    true = AGGREGATES[kind](relation, labels_of(world.votes) if hard else world.votes)
    template = kind(path, hard=hard)
    np.testing.assert_allclose(told(template, world.neighbourhood(), world.votes), true, rtol=1e-12, atol=1e-15)
    some = told(template, world.neighbourhood(), world.votes, world.rows)
    np.testing.assert_allclose(some, true[world.rows], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(told(template, world.neighbourhood(2), world.votes, world.rows), some)


@given(worlds(), st.sampled_from(list(PATHS)), st.booleans(), st.none() | st.integers(1, 7))
def test_slots_are_exact(world: World, path: str, hard: bool, slots: int | None):
    relation = PATHS[path](world.r, world.s)
    most = max(1, max((len(oracle.neighbours(relation, i)) for i in range(world.n)), default=0))
    template = Concat(path, hard=hard, slots=slots)
    assert template.learn(world.neighbourhood()).slots == (slots or most)
    true = oracle.concat(relation, labels_of(world.votes) if hard else world.votes, slots or most)
    np.testing.assert_array_equal(told(template, world.neighbourhood(), world.votes), true)
    np.testing.assert_array_equal(told(template, world.neighbourhood(2), world.votes, world.rows), true[world.rows])


def test_slots_are_those_of_training():
    small = World(np.array([[0, 1.0], [0, 0]]), np.zeros((2, 2)), np.eye(2), np.arange(2))
    learned = Concat("r").learn(small.neighbourhood())
    large = World(apart(np.ones((4, 4))), np.zeros((4, 4)), np.eye(4)[:, :2], np.arange(4))
    assert learned.slots == 1 and learned.learn(large.neighbourhood()).slots == 1, "learned once and for all"
    np.testing.assert_array_equal(told(learned, large.neighbourhood(), large.votes), large.votes[[1, 0, 0, 0]])
    wide = Concat("r").learn(large.neighbourhood())
    assert wide.slots == 3 and wide.width(2) == 6
    np.testing.assert_array_equal(told(wide, small.neighbourhood(), small.votes)[:, 2:], 0.0)


def test_threads_change_nothing_however_many_links_there_are():
    rng, n = np.random.default_rng(0), 400
    links = sparse.random_array((n, n), density=0.03, rng=rng, format="csr")
    links.setdiag(0)
    votes = drawn_votes(rng, n, 3, "proba")
    features = sparse.random_array((n, 20), density=0.2, rng=rng, format="csr")
    one, two = (Neighbourhood(n, 3, {"r": sparse.csr_array(links)}, features, n_jobs=jobs) for jobs in (1, 2))
    rows = rng.permutation(n)[:300]
    for kind in KINDS:
        np.testing.assert_array_equal(told(kind("r"), one, votes, rows), told(kind("r"), two, votes, rows))
        true = AGGREGATES[kind](links.toarray(), votes)
        np.testing.assert_allclose(told(kind("r"), one, votes), true, rtol=1e-12, atol=1e-14)
    for kind in (Count, Mean):
        a, b = (kind("r", "features").aggregated_features(neighbourhood) for neighbourhood in (one, two))
        np.testing.assert_array_equal(a.toarray(), b.toarray())
        np.testing.assert_allclose(a.toarray(), AGGREGATES[kind](links.toarray(), features.toarray()), rtol=1e-12)


def test_who_has_no_neighbour_is_told_nothing():
    world = World(np.zeros((3, 3)), np.zeros((3, 3)), np.full((3, 2), 0.5), np.arange(3))
    for template in (*(kind("r") for kind in KINDS), Concat("r"), Concat("r", slots=4)):
        assert not told(template, world.neighbourhood(), world.votes).any()


@settings(max_examples=15)
@given(worlds(4))
def test_nobody_hears_himself(world: World):
    """What i is told is the same whatever it says itself, by any path, back and forth included."""
    for i in range(world.n):
        other = world.votes.copy()
        other[i] = np.eye(world.votes.shape[1])[0]
        for path in [*PATHS, "r @ ~r", "r @ s @ r | s"]:
            for kind in (Count, Max, Concat):
                before, after = (told(kind(path), world.neighbourhood(), votes)[i] for votes in (world.votes, other))
                np.testing.assert_array_equal(before, after)


def test_a_logarithm_needs_weights_that_are_not_negative():
    world = World(np.array([[0, -0.5], [0, 0]]), np.array([[0, 0.5], [0, 0]]), np.eye(2), np.arange(2))
    with pytest.raises(InputError, match=r"logcount\(r\) needs weights that are not negative; use Count"):
        LogCount("r").learn(world.neighbourhood())
    np.testing.assert_allclose(told(LogCount("s"), world.neighbourhood(), world.votes), [[0, np.log(1.5)], [0, 0]])
    np.testing.assert_allclose(told(Count("r"), world.neighbourhood(), world.votes), [[0, -0.5], [0, 0]])


@given(worlds())
def test_labels_of_votes(world: World):
    found = as_labels(world.votes)
    np.testing.assert_array_equal(found, labels_of(world.votes))
    assert as_labels(np.array([[0.5, 0.5], [0, 0]])).tolist() == [[1, 0], [0, 0]], "the first of equals; silence stays"


# -- features of neighbours


@pytest.mark.parametrize("kind", [Count, Mean])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, np.bool_])
@given(world=worlds(), width=st.integers(0, 3), seed=SEEDS, path=st.sampled_from(["r", "r @ s"]))
@settings(max_examples=20)
def test_features_of_neighbours_dense_and_sparse(kind: Any, dtype: Any, world: World, width: int, seed: int, path: str):
    rng = np.random.default_rng(seed)
    table = (rng.integers(-3, 4, (world.n, width)) * (rng.random((world.n, width)) < 0.6)).astype(dtype)
    true = AGGREGATES[kind](PATHS[path](world.r, world.s), table.astype(np.float64))
    dense, thin = (
        kind(path, "features").aggregated_features(world.neighbourhood(features=f))
        for f in (table, sparse.csr_array(table))
    )
    assert isinstance(dense, np.ndarray) and isinstance(thin, sparse.csr_array)
    assert dense.dtype.kind == thin.dtype.kind == "f" and dense.shape == thin.shape == table.shape
    np.testing.assert_allclose(dense, true, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(thin.toarray(), true, rtol=1e-6, atol=1e-6)
    two = kind(path, "features").aggregated_features(world.neighbourhood(2, features=sparse.csr_array(table)))
    np.testing.assert_array_equal(two.toarray(), thin.toarray())


# -- tokens


SENTENCES = st.lists(st.lists(st.sampled_from(["Kim", "Lee", "kim", "ran", "."]), min_size=1, max_size=5), max_size=5)


@st.composite
def texts(draw: st.DrawFn) -> tuple[Corpus, np.ndarray, np.ndarray]:
    """A corpus of one or two documents, votes of its tokens, and some of its tokens."""
    sentences = draw(SENTENCES)
    first = draw(st.integers(0, len(sentences)))
    corpus = Corpus.from_sentences(sentences, documents=["a"] * first + ["b"] * (len(sentences) - first))
    rng = np.random.default_rng(draw(SEEDS))
    votes = drawn_votes(rng, corpus.n_tokens, 2, "proba")
    return corpus, votes, np.flatnonzero(rng.random(corpus.n_tokens) < 0.5)


def token_hood(corpus: Corpus, n_jobs: int = 1) -> Neighbourhood:
    return Neighbourhood(corpus.n_tokens, 2, {}, corpus=corpus, n_jobs=n_jobs)


@given(texts(), st.integers(1, 4))
def test_windows_stay_in_their_sentence(text: Any, size: int):
    corpus, votes, rows = text
    true = oracle.window(votes, corpus.token_sentences.tolist(), size)
    np.testing.assert_array_equal(told(Window(size), token_hood(corpus), votes), true)
    np.testing.assert_array_equal(told(Window(size), token_hood(corpus), votes, rows), true[rows])


@given(texts())
def test_the_other_tokens_with_the_word(text: Any):
    corpus, votes, rows = text
    words, documents = corpus.columns["word"].strings(), corpus.token_documents.tolist()
    true = oracle.same_word(votes, words, documents)
    n = corpus.n_tokens
    same = np.array([[i != j and words[i] == words[j] and documents[i] == documents[j] for j in range(n)]
                     for i in range(n)], float).reshape(n, n)  # fmt: skip
    np.testing.assert_allclose(told(Count(EVERY_SAME_WORD), token_hood(corpus), votes), true, rtol=1e-12, atol=1e-15)
    for kind in KINDS:
        found = told(kind(EVERY_SAME_WORD), token_hood(corpus, 2), votes, rows)
        np.testing.assert_allclose(found, AGGREGATES[kind](same, votes)[rows], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(
        told(Concat(EVERY_SAME_WORD, slots=2), token_hood(corpus), votes), oracle.concat(same, votes, 2)
    )


def test_linked_tokens_look_at_each_other():
    corpus = Corpus.from_sentences([["Kim", "Kim", "Kim"]], documents=[1])
    votes = np.array([[1, 0.0], [0, 1], [0, 0]])
    nearest = Count(SameWord(most_recent=1))
    assert told(nearest, token_hood(corpus), votes).tolist() == [[0, 1], [1, 0], [0, 1]]
    function = Count(SkipFunction(lambda document: [(2, 0)], "ends"))
    assert told(function, token_hood(corpus), votes).tolist() == [[0, 0], [0, 0], [1, 0]]


def test_words_left_out_are_those_of_training():
    crowd = Corpus.from_sentences([["Kim", "Kim"], ["Kim", "Lee"]])
    learned = Count(SameWord(max_document_frequency=1)).learn(token_hood(crowd))
    assert isinstance(learned.relation, LearnedSkips) and learned_strings(learned) == ["Kim"]
    new = Corpus.from_sentences([["Kim", "Kim", "Lee", "Lee"]])
    assert told(learned, token_hood(new), np.full((4, 1), 1.0)).ravel().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("template", [Window(2), Count(SameWord()), Concat(EVERY_SAME_WORD)], ids=lambda t: t.name)
def test_rules_for_tokens_need_tokens(template: NeighbourTemplate):
    world = World(np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2), np.arange(2))
    with pytest.raises(
        InputError, match="is about tokens in sentences, and this is a graph; name one of its relations"
    ):
        template.learn(world.neighbourhood())


def test_a_relation_that_is_not_there_is_told_when_it_is_learned():
    world = World(np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2), np.arange(2))
    with pytest.raises(InputError, match="there is no relation 'cites' here; there are: 'r', 's'"):
        Count("r @ cites").learn(world.neighbourhood())
    with pytest.raises(InputError, match="there are: none"):
        Concat("cites").learn(token_hood(Corpus.from_sentences([["Kim"]])))


# -- a user's functions


WORLD = World(
    np.array([[0, 1.0, 2], [0, 0, 0], [1, 0, 0]]), np.zeros((3, 3)), np.array([[1, 0.0], [0, 1], [0.5, 0.5]]),
    np.arange(3),
)  # fmt: skip


def strongest(votes: np.ndarray, relations: Any) -> np.ndarray:
    return (relations["r"] @ votes).max(axis=1)


@given(worlds())
def test_a_function_is_given_votes_and_relations(world: World):
    template = NeighbourFunction(lambda votes, relations: relations["r"] @ votes, "sum")
    found = told(template, world.neighbourhood(), world.votes, world.rows)
    np.testing.assert_allclose(found, oracle.count(world.r, world.votes)[world.rows], rtol=1e-12, atol=1e-15)
    assert template.learn(world.neighbourhood()).columns == world.votes.shape[1]


def test_one_number_an_instance_is_one_column():
    learned = NeighbourFunction(strongest).learn(WORLD.neighbourhood())
    assert (learned.name, learned.columns, learned.column_names(["a", "b"])) == ("strongest", 1, ["strongest[0]"])
    assert told(learned, WORLD.neighbourhood(), WORLD.votes).tolist() == [[2.0], [0.0], [1.0]]
    truths = NeighbourFunction(lambda votes, relations: votes[::-1, :1] > 0.7, "first")
    assert told(truths, WORLD.neighbourhood(), WORLD.votes).tolist() == [[0.0], [0.0], [1.0]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros((2, 2)), r"one row of numbers an instance \(3\); got float64 of shape \(2, 2\)"),
        (np.zeros((3, 2, 2)), r"got float64 of shape \(3, 2, 2\)"),
        (0.0, r"got float64 of shape \(\)"),
        (np.array(["a", "b", "c"]), "got <U1"),
        (None, "got object"),
        (sparse.csr_array((3, 2)), "got object"),
        (np.array([0, np.nan, 0]), "finite numbers; got nan"),
        (np.array([0, -np.inf, 0]), "finite numbers; got -inf"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_answer_of_a_function_is_told(answer: Any, message: str):
    with pytest.raises(InputError, match=f"'mine' must return .*{message}"):
        NeighbourFunction(lambda votes, relations: answer, "mine").learn(WORLD.neighbourhood())


def test_a_function_keeps_its_number_of_columns():
    answers = [np.zeros((3, 2)), np.zeros((3, 1))]
    learned = NeighbourFunction(lambda votes, relations: answers.pop(0), "mine").learn(WORLD.neighbourhood())
    with pytest.raises(InputError, match="'mine' returned 2 columns in training and 1 now"):
        learned.write(WORLD.neighbourhood(), WORLD.votes, np.arange(3), np.zeros((3, 2)))


@pytest.mark.parametrize("wrong", ["strongest", 3, None, Count], ids=repr)
def test_a_function_can_be_called(wrong: Any):
    with pytest.raises(SettingError, match="NeighbourFunction takes a function of votes and relations"):
        NeighbourFunction(wrong)


# -- sets of templates


TEMPLATES = [
    Count("r"), Mean("r @ s", "features"), Proportion("~r", hard=True), Max("r | s"), Exists("s"), Concat("r"),
    Concat("s", slots=2), LogCount("component(r | s)"), NeighbourFunction(strongest), Count("s", "features"),
]  # fmt: skip


@given(worlds(), SEEDS)
def test_a_set_puts_its_templates_side_by_side(world: World, seed: int):
    features = np.random.default_rng(seed).standard_normal((world.n, 2))
    neighbourhood = world.neighbourhood(features=features)
    template_set = TemplateSet.learn(TEMPLATES, neighbourhood)
    predictions = [t for t in TEMPLATES if t.of == "predictions"]
    rows = template_set.rows(neighbourhood, world.votes, world.rows)
    apart_ = [told(t, neighbourhood, world.votes, world.rows) for t in predictions]
    np.testing.assert_array_equal(rows, np.concatenate(apart_, axis=1))
    assert template_set.width == rows.shape[1] and [t.of for t in template_set.of_predictions] == ["predictions"] * 8
    fixed = template_set.fixed(neighbourhood)
    assert len(fixed) == 2
    np.testing.assert_allclose(fixed[0], oracle.mean(oracle.compose(world.r, world.s), features), rtol=1e-12)
    np.testing.assert_allclose(fixed[1], oracle.count(world.s, features), rtol=1e-12)
    names = template_set.names([f"v{i}" for i in range(world.votes.shape[1])], ["x", "y"])
    assert len(names) == len(set(names)) == 4 + template_set.width
    assert names[:4] == ["mean(r @ s) x", "mean(r @ s) y", "count(s) x", "count(s) y"]
    assert template_set.relation_names() == ["r", "s"]


def test_columns_have_names():
    template_set = TemplateSet.learn(
        [Count("r", hard=True), Concat("r", slots=2), NeighbourFunction(strongest)], WORLD.neighbourhood()
    )
    assert template_set.names(["cat", "dog"], []) == [
        "count(r, hard) cat", "count(r, hard) dog", "concat(r)[0] cat", "concat(r)[0] dog", "concat(r)[1] cat",
        "concat(r)[1] dog", "strongest[0]",
    ]  # fmt: skip
    corpus = Corpus.from_sentences([["Kim"]])
    of_tokens = TemplateSet.learn(as_templates([Window(1), SameWord()]), token_hood(corpus))
    assert of_tokens.names(["O"], []) == ["window(1)[-1] O", "window(1)[+1] O", "count(same word) O"]


def test_what_templates_may_be():
    assert as_templates(Count("r")) == as_templates("count:r") == as_templates(["count:r"]) == [Count("r")]
    assert as_templates((Window(2), SameWord())) == [Window(2), Count(SameWord())]
    assert as_templates(strongest) == [NeighbourFunction(strongest)]
    both = [Count("r"), Count("r", "features"), Count("r", hard=True), Mean("r"), Count("~r")]
    assert as_templates(both) == both


@pytest.mark.parametrize("wrong", [3, Count, [Count], None, [None], {"r": 1}, [["count:r"]]], ids=repr)
def test_what_templates_may_not_be(wrong: Any):
    with pytest.raises(SettingError, match=r"a relational template was expected, such as Count\('cites'\)"):
        as_templates(wrong)


def test_templates_are_distinct():
    for twice in (
        ["count:r", Count("r")], [SameWord(), Count(SameWord())], [strongest, strongest], [Window(2), "window:2"],
        ["count:r", "count:r:features", "count:r:features"], [Count("r @ s"), Count(Relation("r") @ "s")],
    ):  # fmt: skip
        with pytest.raises(SettingError, match="two templates are the same: "):
            as_templates(twice)
    with pytest.raises(SettingError, match="at least one relational template"):
        as_templates([])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("count:cites", Count("cites")),
        ("Mean: cites @ cites", Mean("cites @ cites")),
        ("mean:cites:features", Mean("cites", "features")),
        ("max:cites | by:hard", Max("cites | by", hard=True)),
        ("exists:~cites", Exists("~cites")),
        ("PROPORTION:cites : hard ", Proportion("cites", hard=True)),
        ("concat:cites", Concat("cites")),
        ("log-count:cites", LogCount("cites")),
        ("Log-Count:component(cites)", LogCount("component(cites)")),
        ("window:3", Window(3)),
        (" window : 12 ", Window(12)),
    ],
)
def test_templates_as_the_command_line_takes_them(text: str, meant: NeighbourTemplate):
    assert parse_template(text) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "cannot read the template .*write it as count:cites") for text in (
            "", "count", "count:", "sum:cites", "count:cites:soft", "count::hard", "cites", "count:cites:features:hard",
            "logcount:cites",
        )),
        ("count:cites @", "cannot read the relation 'cites @'"),
        ("max:cites:features", r"Max\(of=...\) must be one of predictions; got 'features'"),
        *((text, r"Window\(size=...\) must be a whole number from 1 to 1000") for text in (
            "window", "window:", "window:0", "window:-1", "window:2.5", "window:two", "window:²", "window:3:hard",
        )),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_read_is_told(text: str, message: str):
    with pytest.raises(SettingError, match=message):
        parse_template(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Count("r", "labels"), r"Count\(of=...\) must be one of predictions, features; got 'labels'"),
        (lambda: Exists("r", "features"), r"Exists\(of=...\) must be one of predictions; got 'features'"),
        (lambda: Concat("r", "features"), r"Concat\(of=...\) must be one of predictions"),
        (lambda: Mean("r", hard=1), r"Mean\(hard=...\) must be True or False; got 1"),
        (lambda: Mean("r", hard="yes"), r"Mean\(hard=...\) must be True or False"),
        (lambda: Max(3), "a relation is named by a string"),
        (lambda: Max("r @"), "cannot read the relation 'r @'"),
        (lambda: Max(None), "a relation is named by a string"),
        *((lambda slots=slots: Concat("r", slots=slots), r"Concat\(slots=...\) must be a whole number from 1 to 100000")
          for slots in (0, -1, 2.0, True, "2")),
        *((lambda size=size: Window(size), r"Window\(size=...\) must be a whole number from 1 to 1000")
          for size in (0, -3, 1.5, True, None)),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(make: Callable[[], Any], message: str):
    with pytest.raises(SettingError, match=message):
        make()


# -- files


@pytest.mark.parametrize(
    "template",
    [
        *TEMPLATES, Count("~(r @ s)"), Mean("(r | s) @ ~r", hard=True), Concat("r", slots=np.int64(3)), Window(2),
        Window(np.int32(4)), Concat(SameWord(ignore_case=True, most_recent=None), hard=True, slots=2),
        Count(SameWord(max_document_frequency=1)), Max(SkipFunction(lambda document: [(1, 0)], "pairs")),
    ],
    ids=lambda template: template.name,
)  # fmt: skip
def test_templates_come_back_from_their_description(template: Any):
    corpus = Corpus.from_sentences([["Kim", "Kim", "Lee"]] * 2)
    on_tokens = isinstance(template, Window) or not isinstance(getattr(template, "relation", Relation("r")), Relation)
    learned = template.learn(token_hood(corpus) if on_tokens else WORLD.neighbourhood())
    spec, strings = (json.loads(json.dumps(part)) for part in (learned.spec(), learned_strings(learned)))
    function = getattr(getattr(template, "relation", None), "function", None)
    again = rebuilt_template(spec, strings, {"strongest": strongest, "pairs": function}, learned_skips)
    assert again == learned and again.name == learned.name and again.width(3) == learned.width(3)


def test_what_a_file_cannot_hold_is_asked_for():
    with pytest.raises(ModelFileError, match=r"a neighbour function named 'strongest'.*functions=\{'strongest': "):
        rebuilt_template(NeighbourFunction(strongest).spec(), [], {"other": strongest})
    with pytest.raises(ModelFileError, match="a skip function named 'pairs'"):
        rebuilt_template(Count(SkipFunction(lambda d: [], "pairs")).spec(), [], {}, learned_skips)
    with pytest.raises(ModelFileError, match="a relational template this version does not know: 'Median'"):
        rebuilt_template({"template": "Median", "relation": "r", "of": "predictions", "hard": False}, [], {})


# -- rows with columns beside them


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
@given(n=st.integers(0, 5), width=st.integers(0, 4), beside=st.integers(0, 3), seed=SEEDS)
@settings(max_examples=30)
def test_chosen_rows_with_columns_beside_them(dtype: Any, n: int, width: int, beside: int, seed: int):
    rng = np.random.default_rng(seed)
    table = (rng.integers(-2, 3, (n, width)) * (rng.random((n, width)) < 0.5)).astype(dtype)
    index = rng.integers(n, size=rng.integers(2 * n + 1)) if n else np.empty(0, np.int64)
    block = rng.integers(-1, 2, (len(index), beside)) / 4
    for given_ in (table, sparse.csr_array(table)):
        found = side_by_side(given_, index, block)
        assert sparse.issparse(found) == sparse.issparse(given_) and found.dtype.kind == "f"
        full = found.toarray() if sparse.issparse(found) else found
        np.testing.assert_array_equal(full, np.hstack([table[index], block]))
        alone = side_by_side(given_, index, None)
        np.testing.assert_array_equal(alone.toarray() if sparse.issparse(alone) else alone, table[index])
    thin = side_by_side(sparse.csr_array(table), index, block)
    assert thin.has_canonical_format and (thin.data != 0).all()


def test_a_window_over_what_neighbours_are_told():
    corpus = kf.Corpus.from_sentences([["a", "b", "a"], ["b", "a"]], documents=[2])
    votes = np.random.default_rng(0).random((5, 2))
    neighbourhood = Neighbourhood(5, 2, {}, corpus=corpus)
    every = kf.SameWord(capitalised=False, max_document_frequency=None, most_recent=None)
    inner = Max(every).learn(neighbourhood)
    around = Window(1, inner).learn(neighbourhood)
    told = np.empty((5, 2))
    inner.write(neighbourhood, votes, np.arange(5), told)
    out = np.empty((5, around.width(2)))
    around.write(neighbourhood, votes, np.arange(5), out)
    np.testing.assert_array_equal(out, oracle.window(told, corpus.token_sentences.tolist(), 1))
    assert len(around.column_names(["x", "y"])) == 4
    assert rebuilt_template(around.spec(), [], {}, learned_skips) == around
    with pytest.raises(SettingError, match=r"Window\(template=...\) must be a template of predictions"):
        Window(1, Mean("cites", of="features"))


def test_the_same_word_with_the_same_words_around():
    words = [["x", "a", "b"], ["y", "a", "b"], ["x", "a", "c"], ["a"]]
    corpus = kf.Corpus.from_sentences(words, documents=[4])
    plain = {"capitalised": False, "max_document_frequency": None, "most_recent": None}

    def linked(**around: int) -> set[tuple[int, int]]:
        links = Neighbourhood(10, 2, {}, corpus=corpus).links(kf.SameWord(**plain, **around)).tocoo()
        return {(int(i), int(j)) for i, j in zip(*links.coords, strict=True) if i < j}

    assert {(1, 4), (1, 7), (1, 9), (4, 7)} <= linked()
    assert linked(before=1) == {(0, 6), (1, 7), (2, 5)}
    assert linked(after=1) == {(0, 6), (1, 4), (2, 5)}
    assert linked(before=1, after=1) == {(0, 6), (2, 5)}
    with pytest.raises(SettingError, match="must be a whole number from 0 to 100; got -1"):
        kf.SameWord(before=-1)
