"""Options of `train` that only some models have: whose they are, and the settings they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from kinfolk.cli.bases import DEFAULT, new_base
from kinfolk.cli.options import names_in
from kinfolk.errors import SettingError


class Mixing(StrEnum):
    uniform = "uniform"
    learned = "learned"


class Skip(StrEnum):
    same_word = "same-word"
    any_case = "same-word-any-case"
    none = "none"


class Order(StrEnum):
    forward = "forward"
    backward = "backward"
    both = "both"


class ParentFeatures(StrEnum):
    own = "own"
    shared = "shared"
    none = "none"


# option -> the models that have it; what all models have is not here
Owners = Mapping[str, tuple[str, ...]]
TOKENS: Owners = {
    "--decode": ("memm", "skip-chain"),
    "--training": ("mop", "skip-chain"),
    "--skip": ("mop", "skip-chain"),
    "--most-recent": ("mop", "skip-chain"),
    "--max-document-frequency": ("mop", "skip-chain"),
    "--edge-features": ("mop", "skip-chain"),
    "--mixing": ("mop",),
    "--order": ("mop",),
    "--damping": ("skip-chain",),
    "--max-rounds": ("skip-chain",),
    "--depth": ("stacked",),
    "--folds": ("stacked",),
    "--dev": ("crf", "memm", "maxent", "mop", "skip-chain"),
}
OVER_A_BASE, LOG_LINEAR = ("stacked", "dependency-network"), ("mop", "link")
NODES: Owners = {
    "--base": OVER_A_BASE,
    "--base-setting": OVER_A_BASE,
    "--template": OVER_A_BASE,
    "--known": ("stacked",),
    "--depth": ("stacked",),
    "--folds": ("stacked",),
    "--predictions": ("stacked",),
    "--own": ("stacked",),
    "--cross-fitting": ("stacked",),
    "--split": ("stacked",),
    "--start": ("dependency-network",),
    "--burn-in": ("dependency-network",),
    "--sweeps": ("dependency-network",),
    "--chains": ("dependency-network",),
    "--mode": ("dependency-network",),
    "--training": LOG_LINEAR,
    "--relations": LOG_LINEAR,
    "--l2": LOG_LINEAR,
    "--class-weight": LOG_LINEAR,
    "--max-iterations": LOG_LINEAR,
    "--tolerance": LOG_LINEAR,
    "--parent-features": ("mop",),
    "--mixing": ("mop",),
    "--orders": ("mop",),
    "--predict-orders": ("mop",),
    "--everybody-starts": ("mop",),
    "--damping": ("link",),
    "--max-rounds": ("link",),
}
LIMITS = ("--most-recent", "--max-document-frequency")
SKIP_OPTIONS = ("--skip", *LIMITS, "--edge-features")
BASE_OPTIONS = ("--base", "--base-setting", "--template")


def new_tagger(context: typer.Context, method: str, options: dict[str, Any], settings: dict[str, Any]) -> Any:
    """The model that `tokens train` asks for. An option that is None was not given."""
    from kinfolk.graph.stacked import StackedGraphical
    from kinfolk.text.crf import LinearChainCRF
    from kinfolk.text.maxent import MaxEnt
    from kinfolk.text.memm import MEMM
    from kinfolk.text.mixture import MixtureOfParents
    from kinfolk.text.skip_chain import SkipChainCRF

    given = _given(method, TOKENS, options)
    given.pop("--dev", None)  # for `fit`
    if method == "stacked":
        shared = {name: settings[name] for name in ("random_state", "n_jobs", "verbose")}
        return _new(context, StackedGraphical, given, {"base": LinearChainCRF(**settings), **shared})
    kinds = {"crf": LinearChainCRF, "memm": MEMM, "maxent": MaxEnt, "mop": MixtureOfParents, "skip-chain": SkipChainCRF}
    return _new(context, kinds[method], given, settings)


def new_labeller(context: typer.Context, method: str, options: dict[str, Any], settings: dict[str, Any]) -> Any:
    """The model that `nodes train` asks for. An option that is None was not given."""
    from kinfolk.graph.dependency import DependencyNetwork
    from kinfolk.graph.link_model import LinkModel
    from kinfolk.graph.stacked import StackedGraphical
    from kinfolk.text.mixture import MixtureOfParents

    given = _given(method, NODES, options)
    if "--class-weight" in given:
        given["--class-weight"] = class_weights(given["--class-weight"])
    if "--relations" in given:
        named = given["--relations"].strip()
        given["--relations"] = [] if named == "none" else names_in(named)
    if method in OVER_A_BASE:
        settings = {**settings, **_base_settings(given, settings["random_state"])}
    kinds = {"mop": MixtureOfParents, "link": LinkModel, "stacked": StackedGraphical}
    return _new(context, kinds.get(method, DependencyNetwork), given, settings)


def _given(method: str, owners: Owners, options: dict[str, Any]) -> dict[str, Any]:
    """The options given, all of them the model's."""
    given = {option: value for option, value in options.items() if value is not None}
    for option, value in given.items():
        first, *others = owners[option]
        if method not in owners[option]:
            named = f"{option} {value}" if option == "--decode" else option
            also = f" ({', '.join(others)} {'have' if others[1:] else 'has'} it too)" if others else ""
            raise SettingError(f"{named} is for --model {first}; leave it out for --model {method}{also}")
    return given


def _new(context: typer.Context, kind: Any, given: dict[str, Any], settings: dict[str, Any]) -> Any:
    from kinfolk.core.checks import check_settings

    own = _skip_settings(given)
    for option, value in given.items():
        if option not in SKIP_OPTIONS + BASE_OPTIONS:
            own[_setting(option)] = str(value) if isinstance(value, str) else value
    if "training" in own:
        _check_training(context, kind, own["training"])
    model = kind(**own, **settings)
    check_settings(model)  # before any file is read
    return model


def _base_settings(given: dict[str, Any], seed: int) -> dict[str, Any]:
    """Base and templates of a model of nodes that is built over a classifier of scikit-learn."""
    from kinfolk.collective.company import as_templates

    settings = {"base": new_base(given.get("--base", DEFAULT), given.get("--base-setting", []), seed)}
    if "--template" in given:
        settings["templates"] = as_templates(given["--template"])
    return settings


def _setting(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _check_training(context: typer.Context, kind: Any, word: str) -> None:
    """What may be optimised is the model's to say; a word it does not know is told before any file is read."""
    from kinfolk.core.checks import check_settings

    try:
        check_settings(kind(training=word))
    except SettingError as error:
        raise typer.BadParameter(str(error), ctx=context, param_hint="'--training'") from None


def _skip_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Skip edges and their features; a limit of 0 is none."""
    from kinfolk.text.skip_edges import SameWord

    settings: dict[str, Any] = {}
    limits: dict[str, Any] = {_setting(option): given[option] or None for option in LIMITS if option in given}
    if given.get("--skip") is Skip.none:
        if limits:
            wrong = next(option for option in LIMITS if option in given)
            raise SettingError(f"{wrong} is for --skip same-word; leave it out for --skip none")
        settings["skip_edges"] = None
    elif limits or "--skip" in given:
        settings["skip_edges"] = SameWord(ignore_case=given.get("--skip") is Skip.any_case, **limits)
    if "--edge-features" in given:
        settings["edge_features"] = "default" if given["--edge-features"] else None
    return settings


def class_weights(given: list[str] | None) -> dict[str, float] | str | None:
    """Those of --class-weight as the models take them."""
    if not given:
        return None
    if given == ["balanced"]:
        return "balanced"
    weights = {}
    for pair in given:
        name, _, number = pair.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            raise SettingError(f"--class-weight takes label=number, e.g. PER=2; got {pair!r}") from None
    return weights
