"""Token features: templates to a sparse table, with a vocabulary frozen after training.

Templates run on threads, each over whole columns of numbers. Features are numbered template by
template, within a template by first appearance, so rows of the table are sorted as they are built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.kernels import njit
from kinfolk.core.threads import run_chunks
from kinfolk.core.vocabulary import Vocabulary
from kinfolk.errors import SettingError
from kinfolk.text.corpus import Corpus
from kinfolk.text.gazetteer import Gazetteer
from kinfolk.text.keys import KeyTable
from kinfolk.text.templates import Attribute, Keys, Template
from kinfolk.text.view import TokenView

Templates = Iterable["Template | Attribute | Templates"]
CHUNKS = 32


def flatten(templates: Templates) -> list[Template]:
    """One flat list: windows (lists) are opened, a bare attribute stands for offset 0, repeats are dropped."""
    flat: dict[str, Template] = {}
    for item in [templates] if isinstance(templates, Attribute | Template) else templates:
        if isinstance(item, Attribute):
            item = item[0]
        if isinstance(item, str) or not isinstance(item, Template | Iterable):
            raise SettingError(f"a feature template was expected, such as word[-1] or bag(lower, -4, 4); got {item!r}")
        for template in [item] if isinstance(item, Template) else flatten(item):
            if flat.setdefault(str(template), template) != template:
                raise SettingError(f"two different features are named {str(template)!r}: name them apart")
    return list(flat.values())


class TokenFeatures:
    """The feature set of a token model: `learn` on the training corpus, then `rows` for any corpus."""

    def __init__(self, templates: Templates, min_count: int = 1) -> None:
        if min_count < 1:
            raise SettingError(f"min_count must be 1 or more; got {min_count}")
        self.templates = flatten(templates)
        if not self.templates:
            raise SettingError("no feature templates: give at least one, such as word[0]")
        _check_names(self.templates)
        self.min_count = min_count
        self.vocabularies: dict[str, Vocabulary] = {}
        self.tables: list[KeyTable] = []

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(templates + 1,), the number of the first feature of each template."""
        return np.concatenate([[0], np.cumsum([len(t) for t in self.tables])]).astype(np.int64)

    @property
    def n_features(self) -> int:
        return sum(len(table) for table in self.tables)

    def learn(self, corpus: Corpus, n_jobs: int = 1) -> sparse.csr_array:
        """Freeze the vocabulary on `corpus` and return its rows (n, F)."""
        self.vocabularies, self.tables = {}, []
        view = self._view(corpus, learning=True)

        def learn_one(i: int) -> tuple[KeyTable, Keys]:
            keys = self.templates[i].keys(view)
            table = KeyTable.learn(keys.keys.reshape(-1), self.min_count)
            return table, Keys(table.find(keys.keys), keys.indptr)

        learned = run_chunks(learn_one, len(self.templates), n_jobs)
        self.tables = [table for table, _ in learned]
        return self._assemble([numbers for _, numbers in learned], corpus.n_tokens, n_jobs)

    def rows(self, corpus: Corpus, n_jobs: int = 1) -> sparse.csr_array:
        """Rows (n, F) of any corpus; features never met in training are left out."""
        view = self._view(corpus, learning=False)

        def find_one(i: int) -> Keys:
            keys = self.templates[i].keys(view)
            return Keys(self.tables[i].find(keys.keys), keys.indptr)

        return self._assemble(run_chunks(find_one, len(self.templates), n_jobs), corpus.n_tokens, n_jobs)

    def _view(self, corpus: Corpus, learning: bool) -> TokenView:
        view = TokenView(corpus, self.vocabularies, learning)
        view.prepare([a for template in self.templates for a in template.attributes()])
        return view

    def _assemble(self, blocks: list[Keys], n: int, n_jobs: int) -> sparse.csr_array:
        """CSR from one block of numbers a template: count each row, then write block after block."""
        bounds = np.linspace(0, n, CHUNKS + 1).astype(np.int64)
        parts = [(b.keys, _NO_RUNS if b.indptr is None else b.indptr) for b in blocks]
        indptr = np.zeros(n + 1, np.int64)

        def count(chunk: int) -> None:
            for numbers, runs in parts:
                _count(numbers, runs, bounds[chunk], bounds[chunk + 1], indptr)

        run_chunks(count, CHUNKS, n_jobs)
        np.cumsum(indptr, out=indptr)
        indices = np.empty(indptr[-1], np.int32)
        cursor = indptr[:-1].copy()

        def write(chunk: int) -> None:
            for (numbers, runs), offset in zip(parts, self.offsets, strict=False):
                _write(numbers, runs, offset, bounds[chunk], bounds[chunk + 1], cursor, indices)

        run_chunks(write, CHUNKS, n_jobs)
        ones = np.broadcast_to(np.float32(1), len(indices))  # every value is 1: one number stands for all
        if indptr[-1] < 2**31:
            indptr = indptr.astype(np.int32)
        return sparse.csr_array((ones, indices, indptr), shape=(n, self.n_features))

    def names(self) -> list[str]:
        """The name of every feature, for people: `lower[-1]=the & lower[0]=hague`."""
        view = TokenView(_NOTHING, self.vocabularies, learning=False)
        return [
            template.describe(int(key), view)
            for template, table in zip(self.templates, self.tables, strict=True)
            for key in table.keys
        ]

    def spec(self) -> dict[str, Any]:
        return {"templates": [template.spec() for template in self.templates], "min_count": self.min_count}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Sequence[str]]]:
        """What the model file keeps: arrays and string lists."""
        arrays = {"features.sizes": np.array([len(t) for t in self.tables], np.int64)}
        arrays["features.keys"] = np.concatenate([t.keys for t in self.tables]).astype(np.int64)
        strings: dict[str, Sequence[str]] = {f"values.{n}": v.names for n, v in self.vocabularies.items()}
        for template in self.templates:
            for attribute in template.attributes():
                while hasattr(attribute, "of"):
                    attribute = attribute.of
                if isinstance(attribute, Gazetteer):
                    strings[f"gazetteer.{attribute.name}"] = sorted(attribute.entries)
        return arrays, strings

    def restore(self, arrays: Mapping[str, NDArray[Any]], strings: Mapping[str, Sequence[str]]) -> None:
        cuts = np.cumsum(arrays["features.sizes"])[:-1]
        self.tables = [KeyTable.of(k.copy()) for k in np.split(arrays["features.keys"], cuts)]
        self.vocabularies = {
            name.removeprefix("values."): Vocabulary(v) for name, v in strings.items() if name.startswith("values.")
        }


def _check_names(templates: Iterable[Template]) -> None:
    """Values are kept by the name of their attribute, so two things may not share one."""
    named: dict[str, Attribute | Template] = {}
    for template in templates:
        for part in template.attributes() or (template,):
            if named.setdefault(str(part), part) != part:
                raise SettingError(f"two different features are named {str(part)!r}: name them apart")


_NOTHING = Corpus.from_sentences([])
_NO_RUNS = np.empty(0, np.int64)


@njit(nogil=True, cache=True)
def _is_repeat(flat, begin, at):
    """True if flat[at] stands earlier in the run that starts at `begin`."""
    for earlier in range(begin, at):
        if flat[earlier] == flat[at]:
            return True
    return False


@njit(nogil=True, cache=True)
def _count(numbers, runs, first, last, counts):
    """counts[row + 1] += how many distinct features the row has in this block.

    Row r of a table of width w is flat[r w : (r + 1) w]; of runs it is flat[runs[r] : runs[r + 1]].
    """
    flat = numbers.reshape(-1)
    width = len(flat) // max(1, len(counts) - 1)
    for row in range(first, last):
        begin, end = (runs[row], runs[row + 1]) if len(runs) else (row * width, (row + 1) * width)
        for at in range(begin, end):
            if flat[at] >= 0 and not _is_repeat(flat, begin, at):
                counts[row + 1] += 1


@njit(nogil=True, cache=True)
def _write(numbers, runs, offset, first, last, cursor, indices):
    """Append the distinct features of each row, in rising order."""
    flat = numbers.reshape(-1)
    width = len(flat) // max(1, len(cursor))
    for row in range(first, last):
        begin, end = (runs[row], runs[row + 1]) if len(runs) else (row * width, (row + 1) * width)
        start = cursor[row]
        for at in range(begin, end):
            if flat[at] >= 0 and not _is_repeat(flat, begin, at):
                place = cursor[row]
                while place > start and indices[place - 1] > flat[at] + offset:  # insertion: runs are short
                    indices[place] = indices[place - 1]
                    place -= 1
                indices[place] = flat[at] + offset
                cursor[row] += 1
