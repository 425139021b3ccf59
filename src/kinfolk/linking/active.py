"""ActiveLinker: a linker that asks for the labels it needs. Ask, tell, and every ten answers it learns again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.answers import Answer, AnswerFile
from kinfolk.linking.blocking import as_rules, blocked
from kinfolk.linking.differences import Pieces, differences
from kinfolk.linking.estimate import LEAST, Asked, Estimate, Known, PairTotals, estimated_f1
from kinfolk.linking.linker import Linker
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.nested import SEPARATOR
from kinfolk.linking.probabilities import RANKS
from kinfolk.linking.questions import CLOSE, CONTRADICTS, DRAWN, OTHER, Queue, Scored, drawn, questions
from kinfolk.linking.supervision import check_items
from kinfolk.linking.unlabelled import KeptMatches

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
WHY = {
    CONTRADICTS: "its probability contradicts the clusters",
    CLOSE: "the model is unsure",
    OTHER: "the least sure of what is left",
    DRAWN: "drawn at random, to check what the model is sure of",
}


@dataclass(frozen=True)
class FieldPair:
    """What two records have in a field, None = missing."""

    name: str
    left: str | None
    right: str | None

    @cached_property
    def pieces(self) -> tuple[Pieces, Pieces]:
        """Both texts in pieces, each with whether it differs from the other text."""
        return differences(self.left or "", self.right or "")

    @property
    def differs(self) -> bool:
        return self.left != self.right


@dataclass(frozen=True)
class Question:
    """Do these two records match?

    left, right   their ids
    fields        what they have in every field, side by side
    probability   of the model so far, and `together`: whether its clusters have the two together
    why           the reason for asking
    """

    left: str
    right: str
    fields: tuple[FieldPair, ...]
    probability: float | None
    together: bool
    why: str

    def __str__(self) -> str:
        shown = (f"  {one.name}: {one.left or '-'} | {one.right or '-'}" for one in self.fields)
        return "\n".join([f"{self.left} - {self.right}: a match?", *shown])


class _View(NamedTuple):
    """What a model says of all pairs, and the order of asking that follows."""

    linker: Linker
    items: Mentions
    keys: NDArray[np.int64]
    scored: Scored
    clusters: NDArray[np.int32]
    queue: Queue
    checks: NDArray[np.int64]  # pairs drawn at random
    totals: PairTotals

    def number(self, pair: tuple[int, int]) -> int | None:
        """Of a pair that is compared."""
        key = pair_keys(np.array([pair[0]]), np.array([pair[1]]))[0]
        at = int(np.searchsorted(self.keys, key))
        return at if at < len(self.keys) and self.keys[at] == key else None

    def known(self, answer: Answer) -> Known:
        number = self.number(answer.pair)
        probability = None if number is None else float(self.scored.probability[number])
        together = bool(self.clusters[answer.left] == self.clusters[answer.right])
        return Known(bool(answer.match), together, probability)


class ActiveLinker:
    """Chooses the pairs of records whose labels teach a linker most, and learns from the answers.

        loop = kf.ActiveLinker(kf.Linker(blocking=rules), records, "labels.csv")
        question = loop.ask()
        loop.tell(question, True)

    linker       a linker; one that is fitted is where the questions begin, and stays until the answers make one that is
                 estimated to be better
    records      the records, without answers
    path         a CSV file that every answer is in before `tell` returns, and that is read back; None: no file
    every        after how many answers the model is trained again
    check        every how many questions one is drawn at random, so that the estimate is not of doubtful pairs alone;
                 None: never
    background   whether training goes on in a thread while more is asked; else `tell` waits for it
    """

    def __init__(
        self,
        linker: Linker,
        records: Mentions,
        path: str | os.PathLike[str] | None = None,
        *,
        every: int = 10,
        check: int | None = 10,
        background: bool = False,
        random_state: int = 0,
    ) -> None:
        check_items(records)
        if records.n_items < 2:
            what = "a table of one record" if records.n_items else "an empty table"
            raise InputError(f"there is no pair to ask about in {what}")
        for name, value in (("every", every), ("check", 1 if check is None else check)):
            if not isinstance(value, int) or value < 1:
                raise SettingError(name, value, "a whole number of 1 or more", owner="ActiveLinker")
        if not isinstance(linker, Linker):
            raise SettingError.saying(f"ActiveLinker takes a Linker; got {type(linker).__name__}")
        if records.corpus is not None:
            raise SettingError.saying("ActiveLinker asks about records; mentions of a text are learned from clusters")
        if linker.training in RANKS:
            raise SettingError("training", linker.training, "'local' or 'structured' to learn from labelled pairs")
        self._settings = linker
        self._every, self._check, self._background, self._seed = every, check, background, random_state
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._items = linker.candidates(replace(records, clusters=None))
        self._blocks = _blocks(self._items, linker.blocking, linker.n_jobs)
        self._number = {self._items.name(i): i for i in range(self._items.n_items)}
        self._file = None if path is None else AnswerFile(path, records)
        self._answers: list[Answer] = [] if self._file is None else self._file.answers
        self._asked: tuple[Question, tuple[int, int]] | None = None
        self._since = 0  # answers since the model was last trained
        self.updates = 0  # how often it was
        self._match = KeptMatches()
        self._start: _View | None = None  # of the linker that was given, if it was fitted
        self._view = self._begin()

    # -- what it knows ----------------------------------------------------------------------------------

    @property
    def linker(self) -> Linker:
        """The model so far."""
        return self._view.linker

    @property
    def labels(self) -> dict[str, list[Any]]:
        """The answers as a table that `fit(pairs=...)` takes: ids, and True, False or None for unsure."""
        name = self._items.name
        with self._lock:
            rows = [(name(one.left), name(one.right), one.match) for one in self._latest]
        return {column: [row[k] for row in rows] for k, column in enumerate(("left", "right", "match"))}

    @property
    def counts(self) -> dict[str, int]:
        """How many answers were yes, no and unsure."""
        with self._lock:
            found = [one.match for one in self._latest]
        return {"yes": found.count(True), "no": found.count(False), "unsure": found.count(None)}

    def estimate(self) -> Estimate | None:
        """Pairwise F1 of the model's clusters with a 95 % interval, as far as probabilities and answers tell; None
        with fewer than 10 answers of yes or no, or where nothing is linked. `estimate_in_words` says which."""
        with self._lock:
            view, decided = self._view, self._decided
        return self._estimated(view, decided) if len(_asked(decided)) >= LEAST else None

    def estimate_in_words(self) -> str:
        """The estimate, or why there is none."""
        with self._lock:
            answers = len(_asked(self._decided))
        if answers < LEAST:
            return f"an estimate needs {LEAST} answers of yes or no; there are {answers}"
        return str(self.estimate() or "there is no estimate: nothing is linked, and no pair is likely to match")

    def _estimated(self, view: _View, decided: Sequence[Answer]) -> Estimate | None:
        asked = _asked(decided)
        before = Asked.of(
            [one.probability or 0.0 for one in asked],
            [bool(one.together) for one in asked],
            [bool(one.match) for one in asked],
        )
        return estimated_f1(view.totals, before, [view.known(one) for one in decided], self._seed)

    @property
    def _latest(self) -> list[Answer]:
        """An answer a pair: a file that was put together may have several."""
        by_pair: dict[tuple[int, int], Answer] = {}
        for one in self._answers:
            if one.match is not None or one.pair not in by_pair:
                by_pair[one.pair] = one
        return list(by_pair.values())

    @property
    def _decided(self) -> list[Answer]:
        return [one for one in self._latest if one.match is not None]

    # -- ask and tell -------------------------------------------------------------------------------------

    def ask(self) -> Question | None:
        """The pair whose answer tells most, the same until it is answered; None: no pair is left."""
        with self._lock:
            if self._asked is None:
                self._asked = self._next()
            return None if self._asked is None else self._asked[0]

    def tell(self, question: Question | Sequence[Any], match: bool | None) -> None:
        """An answer, None = unsure, about a question or two ids; a former answer about the pair is replaced."""
        if match is not None and not isinstance(match, bool | np.bool_):
            raise InputError(f"expected True, False or None (unsure), got {match!r}")
        pair = self._pair(question)
        with self._lock:
            view = self._view
            number = view.number(pair)
            probability = None if number is None else float(view.scored.probability[number])
            together = bool(view.clusters[pair[0]] == view.clusters[pair[1]])
            answer = Answer(*pair, None if match is None else bool(match), probability, together)
            if self._file is not None:
                self._file.add(answer)
                self._answers = self._file.answers
            else:
                self._answers = [one for one in self._answers if one.pair != pair] + [answer]
            if self._asked is not None and self._asked[1] == pair:
                self._asked = None
            self._since += 1
            due = self._since >= self._every
        if due:
            self.update(wait=not self._background)

    def back(self) -> Question | None:
        """Take the last answer back, and ask about its pair again; None: there is none."""
        with self._lock:
            if not self._answers:
                return None
            if self._file is not None:
                answer = self._file.take_back()
                self._answers = self._file.answers
            else:
                answer = self._answers.pop()
            self._since = max(self._since - 1, 0)
            self._asked = self._question(answer.pair, "asked again"), answer.pair
            return self._asked[0]

    def update(self, wait: bool = True) -> None:
        """Train on the answers so far; without `wait` in a thread, after which `linker` is the new model."""
        if wait:
            self._finish()
            self._since = 0
            self._update()
            return
        with self._lock:
            if not self.updating:
                self._since = 0
                self._thread = threading.Thread(target=self._update_or_tell, name="kinfolk-update", daemon=True)
                self._thread.start()

    @property
    def updating(self) -> bool:
        """Whether a model is being trained in the background."""
        return self._thread is not None and self._thread.is_alive()

    def close(self, wait: bool = True) -> None:
        """Close the file of answers, after the training that goes on; without `wait` that is left to itself."""
        if wait:
            self._finish()
        self._closed = True
        if self._file is not None:
            self._file.close()

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> ActiveLinker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _pair(self, question: Question | Sequence[Any]) -> tuple[int, int]:
        given = (question.left, question.right) if isinstance(question, Question) else tuple(question)
        if len(given) != 2:
            raise InputError(f"expected a question, or the ids of two records; got {question!r}")
        first, second = (self._item(one) for one in given)
        if first == second:
            raise InputError(f"expected the ids of two different records; got {given[0]!r} and {given[1]!r}")
        low, high = min(first, second), max(first, second)
        table = self._items.first_table
        if table is not None and not low < table <= high:
            raise InputError(f"{given[0]!r} and {given[1]!r} are in one table; pairs go from one to the other")
        return low, high

    def _item(self, given: Any) -> int:
        """The number of a record, by its id or its number."""
        found = self._number.get(given) if isinstance(given, str) else int(given)
        if found is None or not 0 <= found < self._items.n_items:
            example = self._items.name(0)
            raise InputError(f"no record has the id {given!r}; ids look like {example!r}")
        return found

    def _next(self) -> tuple[Question, tuple[int, int]] | None:
        view, done = self._view, {one.pair for one in self._answers}
        implied = _Implied(self._decided)
        check = self._check is not None and len(done) % self._check == self._check - 1
        listed = [(view.checks, DRAWN)] if check else []
        for pairs, kind in (*listed, (view.queue.pairs, None)):
            for at, k in enumerate(pairs.tolist()):
                pair = int(view.items.left[k]), int(view.items.right[k])
                if pair not in done and not implied(pair):
                    own = int(view.queue.kinds[at]) if kind is None else kind
                    return self._question(pair, WHY[own]), pair
        rest = np.flatnonzero(~np.isin(np.arange(len(view.keys)), view.queue.pairs))
        for k in rest.tolist():
            pair = int(view.items.left[k]), int(view.items.right[k])
            if pair not in done and not implied(pair):
                return self._question(pair, WHY[OTHER]), pair
        return None

    def _question(self, pair: tuple[int, int], why: str) -> Question:
        view, (left, right) = self._view, pair
        number = view.number(pair)
        fields = tuple(
            FieldPair(name, _shown(column, left), _shown(column, right)) for name, column in self._items.columns.items()
        )
        probability = None if number is None else float(view.scored.probability[number])
        together = bool(view.clusters[left] == view.clusters[right])
        return Question(self._items.name(left), self._items.name(right), fields, probability, together, why)

    # -- learning -----------------------------------------------------------------------------------------

    def _begin(self) -> _View:
        """The linker that was given, if it is fitted; or one trained on the answers there are, where that is better."""
        decided = self._decided
        if not hasattr(self._settings, "pair_set_"):
            return self._viewed(self._learned(decided))
        self._start = self._viewed(self._settings)
        try:
            return self._trained(decided) if decided else self._start
        except InputError as error:
            log.warning("the model stays as it is: %s", error)
            return self._start

    def _trained(self, decided: Sequence[Answer]) -> _View:
        """A model trained on the answers; or the one given, as long as its clusters are estimated to be better.

        It has seen none of the answers, so what it says of their pairs is what it would have said when they were asked.
        """
        view = self._viewed(self._learned(decided))
        if self._start is None:
            return view
        start = self._start
        seen = [start.known(one) for one in decided]
        asked = [
            one._replace(probability=known.probability, together=known.together)
            for one, known in zip(decided, seen, strict=True)
        ]
        before, after = self._estimated(start, asked), self._estimated(view, decided)
        if before is None or (after is not None and after.f1 >= before.f1):
            return view
        log.info("the model given stays: it is estimated to be better than one trained on the %d answers", len(decided))
        return self._viewed(start.linker)

    def _update(self) -> None:
        with self._lock:
            decided = self._decided
        try:
            view = self._trained(decided)
        except InputError as error:
            log.warning("the model stays as it is: %s", error)
            return
        with self._lock:
            self._view = view
            self.updates += 1

    def _update_or_tell(self) -> None:
        """In a thread nobody sees an exception: the questions go on with the model that is there."""
        try:
            self._update()
        except Exception as error:
            if self._closed:  # the program ends, and with it what training stands on
                return
            log.error("the model stays as it is, for training failed: %s", error)

    def _learned(self, decided: Sequence[Answer]) -> Linker:
        """A linker with the same settings, trained on the answers."""
        name = self._items.name
        pairs = [(name(one.left), name(one.right), bool(one.match)) for one in decided]
        fresh = Linker(**self._settings.get_params(deep=False))
        return fresh._fit(self._items, None, (pairs or None, None, None, None), self._match)

    def _viewed(self, linker: Linker) -> _View:
        items, probability, clusters = linker.linked(self._items)
        keys = pair_keys(items.left, items.right)
        at = np.minimum(np.searchsorted(self._blocks.keys, keys), max(len(self._blocks.keys) - 1, 0))
        own = self._blocks.keys[at] == keys if len(self._blocks.keys) else np.zeros(len(keys), bool)
        block = np.where(own, self._blocks.rule[at], -1) if len(self._blocks.keys) else np.full(len(keys), -1)
        ends, threshold = (clusters[items.left], clusters[items.right]), linker.clusterer_.threshold
        scored = Scored(probability, *ends, block, threshold, items.first_table is not None)
        with self._lock:
            done = [one.pair for one in self._answers]
        low, high = np.array(done, np.int64).reshape(-1, 2).T
        answered = np.flatnonzero(np.isin(keys, pair_keys(low, high)))
        coded = linker.pair_set_.coder(items)

        def rows(pairs: Array) -> Array:
            codes = coded(items.left[pairs], items.right[pairs])
            return np.unique(codes, axis=0, return_inverse=True)[1].ravel() if len(codes) else np.empty(0, np.int64)

        rng = np.random.default_rng(self._seed)
        queue = questions(scored, rows, answered, rng)
        checks = drawn(scored, CHECKS, np.random.default_rng((self._seed, len(done))))
        return _View(linker, items, keys, scored, clusters, queue, checks, PairTotals(probability, scored.together))


def _asked(decided: Sequence[Answer]) -> list[Answer]:
    """Answers with what the model said of their pairs when they were asked."""
    return [one for one in decided if one.probability is not None and one.together is not None]


CHECKS = 20  # pairs drawn at random between two trainings


class _Blocks(NamedTuple):
    """The first rule that brings each candidate pair together, by its number."""

    keys: NDArray[np.int64]
    rule: NDArray[np.int64]


def _blocks(items: Mentions, rules: Any, n_jobs: int | None) -> _Blocks:
    keys = pair_keys(items.left, items.right)
    rule = np.zeros(len(keys), np.int64)
    listed = [] if rules is None else as_rules(rules)
    bare = replace(items, left=items.left[:0], right=items.right[:0], blocked=False)
    for number in range(len(listed) - 1, -1, -1) if len(listed) > 1 else ():
        found, _ = blocked(bare, [listed[number]], giant="skip", n_jobs=n_jobs)
        rule[np.isin(keys, pair_keys(found.left, found.right), assume_unique=True)] = number
    return _Blocks(keys, rule)


class _Implied:
    """Whether the answer about a pair follows from others: a = b and b = c, or a = b and b differs from c."""

    def __init__(self, decided: Sequence[Answer]) -> None:
        self._above: dict[int, int] = {}
        for one in decided:
            if one.match:
                self._above[self._root(one.left)] = self._root(one.right)
        self._apart = {frozenset(map(self._root, one.pair)) for one in decided if not one.match}

    def _root(self, item: int) -> int:
        while item in self._above and self._above[item] != item:
            item = self._above[item]
        return item

    def __call__(self, pair: tuple[int, int]) -> bool:
        ends = frozenset(map(self._root, pair))
        return len(ends) == 1 or ends in self._apart


def _shown(column: Any, item: int) -> str | None:
    if isinstance(column, Column):
        code = int(column.codes[item])
        return None if code < 0 else column.values[code].replace(SEPARATOR, "; ")
    if column.ndim > 1:
        return None if np.isnan(column[item, 0]) else f"a vector of {column.shape[1]} numbers"
    value = float(column[item])
    return None if np.isnan(value) else f"{value:.15g}"
