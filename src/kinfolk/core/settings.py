"""Settings the way scikit-learn keeps them: arguments of `__init__`, stored untouched under their own names.

`get_params`, `set_params`, `sklearn.base.clone`, pipelines and grids work, and notebooks show models as they show those
of scikit-learn; which itself is not imported for it: that would cost every start of the program most of a second.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from kinfolk.errors import NotFittedError, SettingError


class Settings:
    """Mixin: the arguments of `__init__` are the settings; what `fit` learns ends in an underscore.

    CHOICES names settings whose words are the model's own.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def _setting_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings; with `deep` those of models among them too, as base__C."""
        found = {name: getattr(self, name) for name in self._setting_names()}
        inner = {name: value for name, value in found.items() if deep and hasattr(value, "get_params")}
        for name, value in inner.items():
            if not isinstance(value, type):
                found.update({f"{name}__{key}": setting for key, setting in value.get_params(deep=True).items()})
        return found

    def set_params(self, **settings: Any) -> Self:
        known = self._setting_names()
        for name, value in settings.items():
            outer, _, inner = name.partition("__")
            if outer not in known or (inner and not hasattr(getattr(self, outer), "set_params")):
                raise SettingError(f"{type(self).__name__} has no setting {name!r}; it has: {', '.join(known)}")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        # Not "classifier": cross-validation would try to stratify by sequences of labels, and fail.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True, dict=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Should learning fail or be interrupted, the model stays what it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit, or load a model file")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{n}={v!r}" for n, v in self.get_params(deep=False).items() if repr(v) != repr(defaults[n].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str | None:
        """How a notebook shows the model: the diagram that scikit-learn draws of its own, which escapes all text.

        None, so that the notebook prints `repr`, where scikit-learn was told so: `set_config(display="text")`.
        """
        from sklearn import get_config
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self)) if get_config()["display"] == "diagram" else None

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """All forms at once, for notebooks that choose."""
        html = self._repr_html_()
        return {"text/plain": repr(self), **({} if html is None else {"text/html": html})}
