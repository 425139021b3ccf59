"""Feature templates from the JSON description in a model file.

A user's functions are not in the file: it keeps their names, and they are passed in again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kinfolk.errors import ModelFileError
from kinfolk.text.attributes import Derived, PerWord, Raw, matches, prefix, suffix
from kinfolk.text.dicts import DictFeatures
from kinfolk.text.document import Context
from kinfolk.text.extraction import TokenFeatures
from kinfolk.text.gazetteer import Gazetteer
from kinfolk.text.templates import Attribute, Conjunction, Elsewhere, PerToken, Template, bag

_CHECKED: dict[str, Callable[..., Attribute]] = {"prefix": prefix, "suffix": suffix, "matches": matches}
Functions = Mapping[str, Callable[..., Any]]
Strings = Mapping[str, Sequence[str]]


def feature_set(spec: Mapping[str, Any], functions: Functions, strings: Strings) -> TokenFeatures | DictFeatures:
    """The feature set described by `TokenFeatures.spec()` or `DictFeatures.spec()`, without its tables."""
    if spec.get("dicts"):
        return DictFeatures(spec["min_count"])
    rebuild = _Rebuild(functions, strings)
    return TokenFeatures([rebuild.template(t) for t in spec["templates"]], spec["min_count"])


class _Rebuild:
    def __init__(self, functions: Functions, strings: Strings) -> None:
        self._functions, self._strings = functions, strings

    def template(self, spec: Mapping[str, Any]) -> Template:
        if "conjunction" in spec:
            return self._conjunction(spec)
        if "bag" in spec:
            return bag(self.attribute(spec["bag"]), int(spec["first"]), int(spec["last"]))
        if "elsewhere" in spec:
            return Elsewhere(self._conjunction(spec["elsewhere"]))
        if "per_token" in spec:
            return PerToken(spec["per_token"], self._function(spec["per_token"]))
        raise _unknown(spec)

    def _conjunction(self, spec: Mapping[str, Any]) -> Conjunction:
        return Conjunction(tuple((self.attribute(a), int(offset)) for a, offset in spec["conjunction"]))

    def attribute(self, spec: Mapping[str, Any]) -> Attribute:
        if "column" in spec:
            return Raw(spec["column"])
        if "kind" in spec:
            make = _CHECKED.get(spec["kind"], functools.partial(Derived, spec["kind"], ()))
            return make(*spec["arguments"], of=self.attribute(spec["of"]))
        if "function" in spec:
            return PerWord(spec["function"], self._function(spec["function"]))
        if "document" in spec:
            return Context(spec["document"])
        if "gazetteer" in spec:
            entries = self._strings[f"gazetteer.{spec['gazetteer']}"]
            return Gazetteer(spec["gazetteer"], frozenset(entries), spec["ignore_case"])
        raise _unknown(spec)

    def _function(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            given = ", ".join(self._functions) or "none"
            raise ModelFileError(
                f"the model uses a feature function named {name!r}, which a file cannot hold; pass it in again: "
                f"load_model(path, functions={{{name!r}: ...}}). Given: {given}"
            )
        return self._functions[name]


def _unknown(spec: Mapping[str, Any]) -> ModelFileError:
    return ModelFileError(f"the model uses a feature template this version does not know: {sorted(spec)}")
