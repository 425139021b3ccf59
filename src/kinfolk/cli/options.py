"""Options that several commands have, kept together in one dataclass and spread over each command."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import logging
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from kinfolk.core.settings import Declared, check_settings
from kinfolk.errors import InputError, KinfolkError, SettingError, UntrustedError


def option_name(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def given_settings(group: Any) -> dict[str, Any]:
    """Field -> value of the options that were given: the others are None, or an empty list."""
    values = {one.name: getattr(group, one.name) for one in fields(group)}
    return {name: value for name, value in values.items() if value is not None and value != []}


def given_options(group: Any) -> dict[str, Any]:
    """Option -> value of those that were given."""
    return {option_name(name): value for name, value in given_settings(group).items()}


def refuse_overwriting(
    out: str | Path, option: str, *files: str | Path | None, what: str = "a file that this command reads or writes"
) -> None:
    """An output that is one of these files, or of those a glob names, would destroy it; "-" is standard input or
    output, and no file."""
    from kinfolk.core.files import read_among

    if str(out) != "-" and read_among(out, files, folders=False) is not None:
        raise SettingError.saying(f"{option} {out} would overwrite {what}: name another")


def check_output(out: str | Path, option: str, *files: str | Path | None) -> None:
    """Before the work: an answer can be written there, and is none of the files that are read."""
    from kinfolk.core.files import check_target

    refuse_overwriting(out, option, *files)
    check_target(out)


def check_going_on(checkpoint: Path | None, *files: str | Path | None, quiet: bool = False) -> None:
    """Whether work can be kept there; and whether it goes on from there is told."""
    if checkpoint is None:
        return
    from kinfolk.core.checkpoint import check_checkpoint

    check_checkpoint(checkpoint)
    refuse_overwriting(checkpoint, "--checkpoint", *files)
    if checkpoint.exists() and not quiet:
        typer.echo(f"goes on from {checkpoint}", err=True)


def names_in(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Completion of an option whose words the library checks."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]  # the name is typer's


def spread(**made: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the fields of a dataclass, each an option, in the place of a parameter of that type; `made` are
    dataclasses that were made, by the names of parameters.

    An option that two of them have is one option, and both are given its value.
    """
    return lambda command: _spread(command, made)


def _spread(command: Callable[..., None], made: Mapping[str, type]) -> Callable[..., None]:
    groups: dict[str, Any] = {}
    listed: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        group = made.get(one.name, one.annotation)
        if not is_dataclass(group):
            listed.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[one.name] = group
        types = get_type_hints(group, include_extras=True)
        known = {parameter.name for parameter in listed}
        listed += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
            for f in fields(group)
            if f.name not in known
        ]

    @wraps(command)
    def called(**given: Any) -> None:
        built = {name: kind(**{f.name: given[f.name] for f in fields(kind)}) for name, kind in groups.items()}
        spent = {f.name for kind in groups.values() for f in fields(kind)}
        command(**{name: value for name, value in given.items() if name not in spent}, **built)

    called.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in listed}
    return called


# -- What the library and scikit-learn say, in the words of a shell, a line each -----------------------
#
# The library speaks of settings, in backticks (`folds=3`); a shell of options (--folds 3).

log = logging.getLogger("kinfolk")
ALIASES = {
    "random_state": "seed",
    "n_jobs": "jobs",
    "blocking": "block",
    "templates": "template",
    "skip_edges": "skip",
}  # setting -> parameter


@dataclass(frozen=True)
class ShellWords:
    """Names of settings -> options of the commands of a noun; `instead`: words for settings that are no options."""

    options: dict[str, str] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, commands: Iterable[Any]) -> ShellWords:
        listed = [one for command in commands for one in getattr(command, "params", ())]
        own = {one.name: one.opts[0] for one in listed if one.param_type_name == "option"}
        others = {setting: own[name] for setting, name in ALIASES.items() if name in own and setting not in own}
        return cls(own | others)

    def text(self, message: str) -> str:
        """A message with its settings as options; what else stands in backticks keeps them."""
        parts = message.split("`")
        for i in range(1, len(parts) - 1, 2):
            name, divider, value = parts[i].partition("=")
            if name in self.instead:
                parts[i] = self.instead[name]
            elif name in self.options:
                parts[i] = " ".join([self.options[name], *_shown(value)])
            else:
                parts[i] = f"`{name}{divider}{value}`"
        return "".join(parts)

    def error(self, error: KinfolkError) -> str:
        if isinstance(error, SettingError) and error.setting in self.options:
            return f"{self.options[error.setting]} {self.text(error.wanted)}"
        if isinstance(error, UntrustedError):
            said = " ".join(f"--trust {shlex.quote(name)}" for name in error.types)
            return f"{error.what}. If you trust the file, say {said}"
        return self.text(str(error))


def _shown(value: str) -> list[str]:
    """What is written after an option, if anything, for the value of a setting as Python writes it."""
    try:
        meant = ast.literal_eval(value)
    except (SyntaxError, ValueError):  # nothing, or a name
        return []
    if meant is Ellipsis or isinstance(meant, bool | dict):
        return []
    if meant is None or meant in ([], ()):
        return ["none"]
    named = [str(one) for one in (meant if isinstance(meant, list | tuple) else [meant]) if one is not Ellipsis]
    return [",".join(named)] if named else []


RUNNING: ContextVar[ShellWords] = ContextVar("RUNNING")


def shell_words() -> ShellWords:
    """Of the command that runs."""
    return RUNNING.get(ShellWords())


def name_models(models: Mapping[Any, type]) -> None:
    """From here on models in messages of the library are called as the command that runs calls them."""
    shell_words().instead.update({kind.__name__: f"--model {name}" for name, kind in models.items()})


@contextmanager
def refusals_of_the_base(model: Any) -> Iterator[None]:
    """What the scikit-learn base of a model refuses is a mistake like any other, in its own words."""
    try:
        yield
    except KinfolkError:
        raise
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        base = getattr(model, "base", None)
        if base is None:
            raise
        log.debug("%s failed", type(base).__name__, exc_info=True)
        raise InputError(f"the base {type(base).__name__} refuses: {_one_line(error)}") from error


@contextmanager
def counted_warnings() -> Iterator[None]:
    """Warnings at the end, each once and in a line, however many models of a stack gave them."""
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield
        finally:
            counts = Counter(_one_line(one.message) for one in caught)
    for text, number in counts.items():
        times = f" ({number} times)" if number > 1 else ""
        typer.echo(f"warning: {shell_words().text(text)}{times}", err=True)


def _one_line(message: object) -> str:
    """The first paragraph."""
    return " ".join(str(message).strip().split("\n\n")[0].split())


# -- what the library logs ----------------------------------------------------------------------------


class InShellWords(logging.Formatter):
    """Warnings are called so, and speak of options where the library speaks of settings."""

    def format(self, record: logging.LogRecord) -> str:
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        return mark + shell_words().text(super().format(record))


def listen(context: typer.Context, verbose: bool) -> None:
    """From here on what is logged goes to standard error: warnings and, if wanted, everything."""
    name = context.invoked_subcommand or ""
    group = context.command.get_command(context, name)  # type: ignore[attr-defined]
    RUNNING.set(ShellWords.of(getattr(group, "commands", {name: group}).values()))
    handler = logging.StreamHandler()  # of the standard error there is now
    handler.setFormatter(InShellWords("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler])
    logging.getLogger("numba").setLevel(logging.WARNING)  # it tells of every step of its compiler
    if verbose:
        level = log.level
        log.setLevel(logging.DEBUG)
        context.call_on_close(lambda: log.setLevel(level))


def is_verbose() -> bool:
    return log.isEnabledFor(logging.DEBUG)


@contextmanager
def hushed(*words: str) -> Iterator[None]:
    """Without the warnings of the library that hold one of these."""

    def wanted(record: logging.LogRecord) -> bool:
        return not any(one in record.getMessage() for one in words)

    log.addFilter(wanted)
    try:
        yield
    finally:
        log.removeFilter(wanted)


# -- scikit-learn classifiers by name, for models that are built over one: `--base random-forest` ------

# short name -> module of scikit-learn, class, settings that are not its defaults
SHORT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": ("linear_model", "LogisticRegression", {"max_iter": 1000}),
    "naive-bayes": ("naive_bayes", "GaussianNB", {}),
    "linear-svm": ("svm", "LinearSVC", {}),
    "svm": ("svm", "SVC", {}),
    "knn": ("neighbors", "KNeighborsClassifier", {"algorithm": "brute"}),  # its trees would not be trusted in a file
    "mlp": ("neural_network", "MLPClassifier", {"max_iter": 1000}),
    "hist-gradient-boosting": ("ensemble", "HistGradientBoostingClassifier", {}),
    "decision-tree": ("tree", "DecisionTreeClassifier", {}),
    "random-forest": ("ensemble", "RandomForestClassifier", {}),
    "extra-trees": ("ensemble", "ExtraTreesClassifier", {}),
}
DEFAULT = "logistic"


def new_base(name: str, settings: Sequence[str], seed: int) -> Any:
    """The classifier that --base names, with those of --base-setting, and the seed if it takes one."""
    kind, own = _found(name)
    given = dict(map(_setting, settings))
    known = kind(**own).get_params(deep=False)
    for key in given:
        if key not in known:
            raise SettingError.saying(f"--base-setting: {kind.__name__} has no setting {key!r}; {_near(key, known)}")
    seeded = {"random_state": seed} if "random_state" in known else {}
    return kind(**{**seeded, **own, **given})


def _found(name: str) -> tuple[Any, dict[str, Any]]:
    """The class, and settings to begin with."""
    if name in SHORT:
        module, title, own = SHORT[name]
        return getattr(importlib.import_module(f"sklearn.{module}"), title), own
    from sklearn.utils import all_estimators

    classifiers = dict(all_estimators(type_filter="classifier"))
    if name not in classifiers:
        if name in dict(all_estimators()):
            raise SettingError.saying(f"--base must be a classifier, and scikit-learn's {name} is none")
        short = [*SHORT, "any classifier of scikit-learn by its class name"]
        raise SettingError.saying(f"--base {name} is not known; {_near(name, [*SHORT, *classifiers], short)}")
    parts = [p.name for p in inspect.signature(classifiers[name]).parameters.values() if p.default is p.empty]
    if parts or name == "SelfTrainingClassifier":
        raise SettingError.saying(
            f"--base {name} is built of other classifiers, which only Python can give it; name another"
        )
    return classifiers[name], {}


def _near(word: str, known: Iterable[str], otherwise: Iterable[str] | None = None) -> str:
    """Names that look like the word; if none does, all of them or others."""
    by_letters = {name.lower(): name for name in known}
    close = [by_letters[name] for name in get_close_matches(word.lower(), by_letters, 4)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {', '.join(otherwise or by_letters.values())}"


def _setting(text: str) -> tuple[str, Any]:
    """name=value, where the value is JSON, or a word as it stands."""
    name, divider, value = text.partition("=")
    if not divider or not name.strip():
        raise SettingError.saying(f"--base-setting takes name=value, e.g. C=0.1 or class_weight=balanced; got {text!r}")
    try:
        return name.strip(), json.loads(value)
    except json.JSONDecodeError:
        return name.strip(), value


# -- Options of `train`: the settings of the models, as they are declared ------------------------------


@dataclass(frozen=True)
class ModelOption:
    """An option for a setting that a shell gives in another way: the type it reads, its help, the setting."""

    reads: Any
    help: str
    setting: str
    words: tuple[str, ...] = ()


NOT_OPTIONS = ("random_state", "n_jobs", "verbose", "warm_start")  # --seed, --jobs, --quiet; one `fit` is all there is


@dataclass(frozen=True)
class ModelOptions:
    """The options of some models, by the names a shell gives these: their settings, but not those `left_out`, and
    others that stand for settings."""

    models: Mapping[str, Mapping[str, Declared]]
    others: Mapping[str, ModelOption]
    left_out: Collection[str] = ()

    def group(self) -> type:
        """A dataclass with a field for each option; None: not given, so the model's own default."""
        facts: list[tuple[str, Any, Any]] = []
        for name in dict.fromkeys(name for declared in self.models.values() for name in declared):
            found = {model: declared[name] for model, declared in self.models.items() if name in declared}
            rule = next(iter(found.values())).rule
            if rule is not None and rule.reads is not None and name not in (*NOT_OPTIONS, *self.left_out, *self.others):
                words = tuple(dict.fromkeys(w for one in found.values() if one.rule for w in one.rule.words))
                facts.append((name, _annotated(rule.reads, self._help(found), words), None))
        for name, own in self.others.items():
            text = self._prefix(self.owners(name)) + own.help
            facts.append((name, _annotated(own.reads, text, own.words), None))
        return make_dataclass("Options", facts, frozen=True)

    def owners(self, name: str) -> list[str]:
        """The models that have an option."""
        setting = self.others[name].setting if name in self.others else name
        return [model for model, declared in self.models.items() if setting in declared]

    def given(self, method: str, group: Any) -> dict[str, Any]:
        """Setting (or option that stands for one) -> value of the options given; an error if one is not the model's."""
        given = given_settings(group)
        for name in given:
            first, *others = self.owners(name)
            if method not in (first, *others):
                also = f" ({', '.join(others)} {'have' if others[1:] else 'has'} it too)" if others else ""
                message = f"{option_name(name)} is for --model {first}; leave it out for --model {method}{also}"
                raise SettingError.saying(message)
        return given

    def _prefix(self, owners: Sequence[str]) -> str:
        return "" if len(owners) == len(self.models) else f"{', '.join(owners)}: "

    def _help(self, found: Mapping[str, Declared]) -> str:
        """What the models say of a setting, once for those that say the same."""
        texts: dict[str, list[str]] = {}
        for model, one in found.items():
            default = "" if one.default is None else f" Default: {str(one.default).lower()}."
            texts.setdefault(f"{one.help}.{default}", []).append(model)
        if len(found) == len(self.models) and len(texts) == 1:
            (text,) = texts
            return text[0].upper() + text[1:]
        return " ".join(f"{', '.join(owners)}: {text}" for text, owners in texts.items())


def _annotated(reads: Any, help: str, words: Sequence[str]) -> Any:
    return Annotated[reads | None, typer.Option(help=help, autocompletion=one_of(*words) if words else None)]


def checked(model: Any) -> Any:
    """The model, its settings checked before any file is read."""
    check_settings(model)
    return model


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
            raise SettingError.saying(f"--class-weight takes label=number, e.g. PER=2; got {pair!r}") from None
    return weights


# -- the end of every help page: commands that work, typed as they stand there ---------------------------
#
# Files are those that `examples/*.py` write, or named as one's own would be.

KEPT = "\b\n"  # a paragraph that begins so keeps its line breaks


def examples(*commands: str) -> str:
    """Examples for the end of a help page; a command may go on in the next line after a backslash."""
    lines = [f"  {line}" for command in commands for line in command.splitlines()]
    return KEPT + "\n".join(["Examples:", *lines])


Jobs = Annotated[int, typer.Option(help="Threads; -1 = every core.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="File that what is done so far goes to, every quarter of a minute: the same command, should it be "
        "stopped, goes on from there, to the same end. It is removed when all is written."
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(help="Type or pattern in the model file to load though a forged one could do harm; may be repeated."),
]


# -- where tables are ---------------------------------------------------------------------------------


ENGINES = ("memory", "duckdb", "spark")


@dataclass
class EngineOptions:
    """The engine that holds tables; None: memory."""

    engine: Annotated[
        str | None,
        typer.Option(
            help="Where tables are while they are worked on: memory (default); duckdb, a database on disk, for tables "
            "larger than memory; or spark, the session that Spark's own settings make, local by default. With one of "
            "these --output is a Parquet file, and files may be named by a glob.",
            autocompletion=one_of(*ENGINES),
        ),
    ] = None
    memory_limit: Annotated[
        str | None, typer.Option(help="--engine duckdb: how much memory it may take, such as 2GB.")
    ] = None
    temp_directory: Annotated[
        str | None, typer.Option(help="--engine duckdb: the folder for what does not fit into memory.")
    ] = None


def engine_of(options: EngineOptions, jobs: int) -> Any:
    """The engine asked for; None: memory."""
    return engine_named(options.engine or "memory", options.memory_limit, options.temp_directory, jobs)


def engine_named(name: str, memory_limit: str | None = None, temp_directory: str | None = None, jobs: int = -1) -> Any:
    """The engine of a name; None: memory."""
    if name not in ENGINES:
        raise SettingError.saying(f"--engine must be memory, duckdb or spark; got {name!r}")
    limits = {"memory_limit": memory_limit, "temp_directory": temp_directory}
    given = {option: value for option, value in limits.items() if value is not None}
    if name == "duckdb":
        from kinfolk.core.threads import resolve_jobs
        from kinfolk.engines.duckdb import DuckDB, check_installed

        check_installed()
        return DuckDB(threads=resolve_jobs(jobs), **given)
    if given:
        raise SettingError.saying(f"{option_name(next(iter(given)))} needs --engine duckdb")
    if name == "memory":
        return None
    from kinfolk.engines import spark

    spark.check_installed()
    return spark.Spark()


def check_parquet_output(output: str, n: int = 1) -> list[str]:
    """The Parquet files that an engine is to write, so many; with a comma between, where there are two."""
    files = names_in(output) if n > 1 else [output]
    if len(files) != n or not all(one.lower().endswith((".parquet", ".pq")) for one in files):
        wanted = "a Parquet file" if n == 1 else "two Parquet files, one a table, with a comma between"
        raise SettingError.saying(f"--output must name {wanted}, as --engine writes these; got {output!r}")
    return files
