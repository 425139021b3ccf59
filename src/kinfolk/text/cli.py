"""`kinfolk tokens train | tag | evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import (
    Checkpoint,
    EngineOptions,
    Jobs,
    ModelOption,
    ModelOptions,
    Trust,
    check_going_on,
    check_output,
    check_parquet_output,
    checked,
    class_weights,
    counted_warnings,
    engine_of,
    examples,
    given_options,
    name_models,
    one_of,
    option_name,
    refuse_overwriting,
    shell_words,
    spread,
)
from kinfolk.cli.output import (
    Page,
    TrainingPage,
    check_page,
    entity_table,
    outcome,
    printable,
    report_page,
    show,
    show_json,
    summary,
    write_training_page,
)
from kinfolk.errors import SettingError
from kinfolk.text.chain import MEMM, LinearChainCRF, MaxEnt
from kinfolk.text.extraction import NAMED
from kinfolk.text.mixture import MixtureTagger
from kinfolk.text.skip_chain import SkipChainCRF
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.stacked import StackedTagger

if TYPE_CHECKING:
    from kinfolk.text.corpus import Corpus
    from kinfolk.text.streams import Stream

# -- examples at the end of help pages -----------------------------------------------------------------

TOKENS_TRAIN = examples(
    "kinfolk tokens train --train train.conll --dev dev.conll --out ner.kinfolk",
    "kinfolk tokens train --train train.conll --model mop --order both \\\n    --templates document --out mop.kinfolk",
    "kinfolk tokens train --train train.conll --out ner.kinfolk --quiet --json",
)
TOKENS_TAG = examples(
    "kinfolk tokens tag ner.kinfolk new.conll -o tagged.conll",
    "kinfolk tokens tag ner.kinfolk new.conll --entities",
    "kinfolk tokens tag ner.kinfolk new.conll --json",
    "kinfolk tokens tag ner.kinfolk 'corpus/*.parquet' --engine duckdb -o tagged.parquet",
)
TOKENS_EVALUATE = examples(
    "kinfolk tokens evaluate ner.kinfolk test.conll",
    "kinfolk tokens evaluate ner.kinfolk test.conll --json",
    "kinfolk tokens evaluate ner.kinfolk test.conll --report scores.html",
)
TOKENS = examples(
    "kinfolk tokens train --train train.conll --out ner.kinfolk",
    "kinfolk tokens evaluate ner.kinfolk test.conll",
    "kinfolk tokens tag ner.kinfolk new.conll",
)


# -- Options of `tokens train` that are settings of a model --------------------------------------------


class Method(StrEnum):
    crf = "crf"
    memm = "memm"
    maxent = "maxent"
    mop = "mop"
    skip_chain = "skip-chain"
    stacked = "stacked"


MODELS: dict[Method, Any] = {
    Method.crf: LinearChainCRF,
    Method.memm: MEMM,
    Method.maxent: MaxEnt,
    Method.mop: MixtureTagger,
    Method.skip_chain: SkipChainCRF,
    Method.stacked: StackedTagger,
}
SKIPS = ("same-word", "same-word-any-case", "none")
OPTIONS = ModelOptions(
    # what is stacked are CRFs, which have settings of their own
    {str(k): (LinearChainCRF.DECLARED if k is Method.stacked else {}) | v.DECLARED for k, v in MODELS.items()},
    {
        "templates": ModelOption(str, f"feature set: {', '.join(NAMED)}. Default: sentence.", "templates", (*NAMED,)),
        "class_weight": ModelOption(
            list[str], "label=weight, e.g. PER=2; may be repeated; or: balanced.", "class_weight"
        ),
        "skip": ModelOption(
            str, f"edges to earlier tokens: {', '.join(SKIPS)}. Default: same-word.", "skip_edges", SKIPS
        ),
        "most_recent": ModelOption(int, "edges a token, 0 = all. Default: 5.", "skip_edges"),
        "max_document_frequency": ModelOption(
            int, "no edges for words in more documents, 0 = no limit. Default: 100.", "skip_edges"
        ),
        "edge_features": ModelOption(bool, "features of edges. Default: no.", "edge_features"),
    },
    left_out=("scheme", "dev_every", "vector_l2"),  # a file is read with its own, and has no vectors
)
TokenOptions = OPTIONS.group()


def new_tagger(method: Method, options: Any, settings: dict[str, Any]) -> Any:
    """The model that `tokens train` asks for."""
    name_models(MODELS)
    given = OPTIONS.given(method, options)
    given |= skip_settings(given)
    if "class_weight" in given:
        given["class_weight"] = class_weights(given["class_weight"])
    if method != "stacked":
        return checked(MODELS[method](**given, **settings))
    own = {name: given.pop(name) for name in StackedTagger.DECLARED if name in given and name != "templates"}
    return checked(StackedTagger(checked(LinearChainCRF(**given, **settings)), **own, **settings))


def skip_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Skip edges and their features, of the options for them, which are taken away; a limit of 0 is none."""
    settings: dict[str, Any] = {}
    skip = given.pop("skip", None)
    if skip not in (None, *SKIPS):
        raise SettingError("skip", skip, f"one of {', '.join(SKIPS)}")
    limits: dict[str, Any] = {
        name: given.pop(name) or None for name in ("most_recent", "max_document_frequency") if name in given
    }
    if skip == "none" and limits:
        wrong = option_name(next(iter(limits)))
        raise SettingError.saying(f"{wrong} is for --skip same-word; leave it out for --skip none")
    if skip is not None or limits:
        settings["skip_edges"] = None if skip == "none" else SameWord(ignore_case=skip == SKIPS[1], **limits)
    if "edge_features" in given:
        settings["edge_features"] = "default" if given["edge_features"] else None
    return settings


# -- What `tokens tag` writes as JSON, one value a line ------------------------------------------------


def entity_lines(tagger: Any, stream: Stream, forced: bool) -> Iterator[str]:
    """An object for each entity."""
    for corpus, sentence, document in stream:
        for entity in tagger.predict_entities(corpus, forced=forced):
            answer = vars(entity) | {"sentence": sentence + entity.sentence}
            if "document" in answer:
                answer["document"] += document
            yield json.dumps(answer, ensure_ascii=False) + "\n"


def k_best_lines(tagger: Any, stream: Stream, forced: bool, k: int) -> Iterator[str]:
    """A list for each sentence: its best labellings."""
    for corpus, _, _ in stream:
        for row in tagger.predict_k_best(corpus, k, forced=forced):
            yield json.dumps([{"labels": y, "log_probability": p} for y, p in row]) + "\n"


def sentence_lines(tagger: Any, stream: Stream, forced: bool) -> Iterator[str]:
    """An object for each sentence: words, labels, and the probability of each label by itself."""
    place = {label: i for i, label in enumerate(tagger.classes_)}
    for corpus, sentence, document in stream:
        documents = corpus.token_documents[corpus.sentence_starts[:-1]].tolist()
        found = tagger.predict(corpus, forced=forced), tagger.predict_proba(corpus, forced=forced)
        answers = zip(documents, corpus.rows(), *found, strict=True)
        for number, (its, words, labels, chances) in enumerate(answers, sentence):
            own = [float(row[place[label]]) for row, label in zip(chances, labels, strict=True)]
            answer = {"document": document + its, "sentence": number, "words": words, "labels": labels}
            yield json.dumps(answer | {"probabilities": own}, ensure_ascii=False) + "\n"


# -- The labels a tagger is trained on: named in its summary, and questioned where the file may have none ---

MANY = 12  # labels; a list of more is cut
# Of the Penn Treebank and of Universal Dependencies; those that may well be names of classes (X, SYM) are left out
PARTS_OF_SPEECH = frozenset(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP TO UH VB VBD VBG VBN VBP VBZ "
    "WDT WP WP$ WRB . , : `` '' ( ) -LRB- -RRB- # $ ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT "
    "SCONJ VERB".split()
)


def label_line(corpus: Corpus) -> str:
    """How many labels, their tag scheme, and the types of entities; of labels that are no spans the labels."""
    known = label_summary(corpus)
    names, scheme = known["labels"], known["scheme"]
    types = names if scheme is None else sorted({name.partition("-")[2] for name in names} - {""})
    types = sorted(types, key=lambda name: not name[:1].isalnum())  # signs last
    shown = ", ".join(types[:MANY]) + (", ..." if len(types) > MANY else "")
    counted = f"{len(names)} label{'s' * (len(names) != 1)}" + (f" ({scheme})" if scheme else "")
    return printable(counted + (f": {shown}" if shown else ""))


def label_summary(corpus: Corpus) -> dict[str, Any]:
    """The same for `--json`."""
    return {"labels": [] if corpus.labels is None else sorted(corpus.labels.values), "scheme": corpus.scheme}


def question_of_labels(corpus: Corpus) -> str | None:
    """What to warn of if nobody said which column holds the labels, and the last one looks like another."""
    if corpus.labels is None or corpus.scheme is not None:
        return None
    names = corpus.labels.values
    of_speech = sum(name in PARTS_OF_SPEECH for name in names)
    if len(names) <= MANY and not (len(names) > 2 and of_speech >= len(names) / 2):
        return None
    shown = ", ".join([*sorted(names, key=lambda name: not name[:1].isalnum())[:2], "..."])
    message = f"the last column has {len(names)} labels that are no spans ({shown}); is it the label column?"
    return printable(f"{message} --label names another")


# -- cli -------------------------------------------------------------------------------------------

app = typer.Typer(
    help="Tag tokens: train a tagger, tag files, evaluate.", epilog=TOKENS, no_args_is_help=True, rich_markup_mode=None
)


class Format(StrEnum):
    conll = "conll"
    text = "text"


Columns = Annotated[
    str | None, typer.Option(help="Names of the columns, e.g. word,pos,label. Default: by their number.")
]
Label = Annotated[str, typer.Option(help="Name of the label column; auto = the one named label, else the last.")]
Scheme = Annotated[
    str,
    typer.Option(
        help="Tag scheme of the files: auto, IOB1, BIO, IOBES, BILOU or none.",
        autocompletion=one_of("auto", "IOB1", "BIO", "IOBES", "BILOU", "none"),
    ),
]
Separator = Annotated[
    str | None, typer.Option(help="What stands between columns: one character, or tab. Default: blanks.")
]


@app.command(epilog=TOKENS_TRAIN)
@spread(options=TokenOptions)
def train(
    *,
    train: Annotated[str, typer.Option(help="Labelled column file to train on; - = standard input.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    model: Annotated[Method, typer.Option(help="Method.")] = Method.crf,
    dev: Annotated[str | None, typer.Option(help="Held-out file: stops training when its F1 no longer rises.")] = None,
    options: Any,
    columns: Columns = None,
    label: Label = "auto",
    scheme: Scheme = "auto",
    separator: Separator = None,
    seed: Annotated[int, typer.Option(help="Seed of the random order.")] = 0,
    jobs: Jobs = -1,
    quiet: Annotated[bool, typer.Option(help="No progress and no summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, to standard output.")] = False,
    page: TrainingPage = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Train a tagger and write one model file."""
    from kinfolk.core.checkpoint import remove_checkpoint
    from kinfolk.core.modelfile import check_writable
    from kinfolk.text.conll import read_conll

    check_writable(out)
    check_page(page, train, dev, out)
    refuse_overwriting(out, "--out", train, dev, what="the data it is trained on")
    check_going_on(checkpoint, train, dev, out, page, quiet=quiet)
    reading = _reading(columns, label, scheme, separator)
    settings = {"random_state": seed, "n_jobs": jobs, "verbose": 0 if quiet else 1}
    tagger = new_tagger(model, options, settings)
    corpus = read_conll(train, **reading)
    held_out = {} if dev is None else {"X_dev": read_conll(dev, **reading)}
    question = question_of_labels(corpus) if (label, scheme, columns) == ("auto", "auto", None) else None
    if question is not None:
        typer.echo(f"warning: {question}", err=True)
    with counted_warnings():
        tagger.fit(corpus, **held_out, checkpoint=checkpoint)
    tagger.save(out)
    remove_checkpoint(checkpoint)
    write_training_page(page, tagger, held_out.get("X_dev"))
    size = {"documents": corpus.n_documents, "sentences": corpus.n_sentences, "tokens": corpus.n_tokens}
    features = _first(tagger).features_.n_features
    if as_json:
        show_json(summary(tagger, out, size, features=features, **label_summary(corpus)))
    elif not quiet:
        counted = ", ".join(f"{number} {name}" for name, number in size.items())
        typer.echo(f"trained on {counted}; {features} features; {label_line(corpus)}", err=True)
        for line in outcome(tagger):
            typer.echo(line, err=True)
        typer.echo(f"wrote {out}", err=True)
        report_page(page)


@dataclass
class TableOptions:
    """Of a table of tokens, the columns that are there and that are new."""

    word: Annotated[str | None, typer.Option(help="Table: the column of words. Default: word.")] = None
    sentence: Annotated[
        str | None,
        typer.Option(help="Table: the column whose value changes where a sentence begins, or none. Default: sentence."),
    ] = None
    document: Annotated[
        str | None, typer.Option(help="Table: the column that names documents, or none. Default: document.")
    ] = None
    label: Annotated[str | None, typer.Option(help="Table: the new column of labels. Default: label.")] = None
    probability: Annotated[
        str | None, typer.Option(help="Table: a new column of the probabilities of labels. Default: none.")
    ] = None

    def named(self) -> dict[str, Any]:
        """What `tag` is given."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: None if value.lower() == "none" else value for name, value in given.items()}


@app.command(epilog=TOKENS_TAG)
@spread()
def tag(
    *,
    model: Annotated[Path, typer.Argument(help="Model file.")],
    file: Annotated[
        str,
        typer.Argument(
            help="File to tag; - = standard input. Or a table with a row a token: a Parquet file, or with --engine a "
            "CSV file or a glob of either."
        ),
    ] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - = standard output.")] = "-",
    format: Annotated[Format, typer.Option(help="conll: columns; text: a sentence a line.")] = Format.conll,
    text: Annotated[
        bool,
        typer.Option(
            "--text",
            help="The file is running text, one document, whose sentences and tokens are found as the model was "
            "trained on them; gives entities with their characters, as --entities.",
        ),
    ] = False,
    forced: Annotated[bool, typer.Option(help="Keep the labels the file has; ? marks those to fill in.")] = False,
    entities: Annotated[
        bool, typer.Option(help="One JSON object a line, for each entity, with its probability.")
    ] = False,
    k_best: Annotated[
        int | None, typer.Option(help="One JSON list a line: the k best labellings of each sentence.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, for each sentence, with probabilities.")
    ] = False,
    table: TableOptions,
    tables: EngineOptions,
    scheme: Scheme = "auto",
    separator: Separator = None,
    documents: Annotated[
        str,
        typer.Option(
            help="How documents are told apart: docstart (-DOCSTART- lines), blank (two blank lines), none (each "
            "sentence is one); auto finds it, for which a pipe may have to be read to its end first.",
            autocompletion=one_of("auto", "docstart", "blank", "none"),
        ),
    ] = "auto",
    trust: Trust = None,
    jobs: Jobs = -1,
    checkpoint: Checkpoint = None,
) -> None:
    """Tag a file.

    Writes its columns with the predicted label as the last one, or JSON, one object a line; of a table a Parquet file.
    A file may have any length: it is read, tagged and written in pieces of whole documents. A file that is written
    appears whole or not at all.
    """
    from kinfolk.text.running import check_finds_entities
    from kinfolk.text.streams import Piece, labelled_lines, opened_stream, write_tagged

    engine = engine_of(tables, jobs)
    if engine is not None or file.lower().endswith((".parquet", ".pq")):
        asked = {
            "--format": format is not Format.conll, "--text": text, "--forced": forced, "--entities": entities,
            "--k-best": k_best is not None, "--json": as_json, "--scheme": scheme != "auto",
            "--separator": separator is not None, "--documents": documents != "auto",
            "--checkpoint": checkpoint is not None,
        }  # fmt: skip
        with engine if engine is not None else nullcontext():
            strange = [name for name, one in asked.items() if one]
            tag_table(engine, model, file, output, table, strange, jobs, trust)
        return
    for option in given_options(table):
        raise SettingError.saying(f"{option} needs a table of tokens: a Parquet file, or --engine")
    tagger = _load(model, jobs, trust)
    if entities and k_best is not None:
        raise SettingError.saying("--entities and --k-best are two forms of output: leave one out")
    if k_best is not None and not hasattr(tagger, "predict_k_best"):
        raise SettingError.saying("--k-best needs a crf, memm, mop or stacked model")
    check_output(output, "--output", model)  # a file of columns may be labelled in its own place
    check_going_on(checkpoint, file, model, output, quiet=True)
    _tell_terminal(file)
    if text:
        given = {"--format": format is not Format.conll, "--forced": forced, "--scheme": scheme != "auto"}
        given |= {"--separator": separator is not None, "--documents": documents != "auto"}
        for option in [name for name, one in given.items() if one]:
            raise SettingError.saying(f"{option} is for files of columns or of sentences; leave it out with --text")
        entities = entities or not (as_json or k_best is not None)
        stream: Any = [Piece(read_running(tagger, file, entities), 0, 0)]
    else:
        shell_words().instead["columns"] = COLUMNS_OF_MODEL
        settings: dict[str, Any] = {"forced": forced, "documents": documents, **_form(scheme, separator)}
        stream = opened_stream(tagger, file, text=format is Format.text, **settings)
    lines: Any = sentence_lines if as_json else labelled_lines
    if entities:
        check_finds_entities(tagger)
        lines = entity_lines
    elif k_best is not None:
        lines = partial(k_best_lines, k=k_best)
    how = format.value, text, entities, k_best, as_json, scheme, separator, documents
    write_tagged(tagger, stream, output, lines, checkpoint, forced, *how)


def tag_table(
    engine: Any, model: Path, file: str, output: str, table: TableOptions, strange: list[str], jobs: int,
    trust: list[str] | None,
) -> None:  # fmt: skip
    """All columns of a table of tokens with their labels, in a Parquet file."""
    if strange:
        raise SettingError.saying(f"{strange[0]} is for a file of columns or of text, not for a table; leave it out")
    if file == "-":
        raise SettingError.saying("--engine reads Parquet and CSV files, not standard input; name one")
    check_parquet_output(output)
    refuse_overwriting(output, "--output", file, model)
    shell_words().instead["into"] = "--output"
    _load(model, jobs, trust).tag(file, engine=engine, into=output, **table.named())


@app.command(epilog=TOKENS_EVALUATE)
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    file: Annotated[str, typer.Argument(help="Labelled file; - = standard input.")] = "-",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    page: Page = None,
    scheme: Scheme = "auto",
    separator: Separator = None,
    trust: Trust = None,
    jobs: Jobs = -1,
) -> None:
    """Compare predictions with the labels of a file.

    Entities are counted as conlleval counts them.
    """
    check_page(page, model, file)
    tagger = _load(model, jobs, trust)
    corpus = read_corpus(tagger, file, Format.conll, scheme, separator)
    scores, accuracy = tagger.evaluate(corpus, report=page)
    report_page(page)
    if as_json:
        answer = {"tokens": corpus.n_tokens, "accuracy": accuracy, **(scores.as_dict() if scores else {})}
        show_json(answer)
        return
    lines = [f"{corpus.n_tokens} tokens; accuracy {accuracy:.2f} %"]
    if scores is None:
        show(lines)
    else:
        show(lines, entity_table(scores), scores.table().splitlines())


def _reading(columns: str | None, label: str, scheme: str, separator: str | None) -> dict[str, Any]:
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    return {"columns": names, "label": label, **_form(scheme, separator)}


def _form(scheme: str, separator: str | None) -> dict[str, Any]:
    return {"scheme": None if scheme == "none" else scheme, "separator": "\t" if separator == "tab" else separator}


def _load(path: Path, jobs: int, trust: list[str] | None) -> Any:
    from kinfolk.core.modelfile import load_model

    tagger = load_model(path, kind="tokens", trusted=trust or ()).set_params(n_jobs=jobs)
    for level in getattr(tagger, "levels_", ()):
        level.set_params(n_jobs=jobs)
    return tagger


def _first(tagger: Any) -> Any:
    """The tagger, or the first of those it is stacked of: the one that sees the columns alone."""
    return tagger.levels_[0] if hasattr(tagger, "levels_") else tagger


def read_running(tagger: Any, file: str, for_entities: bool) -> Corpus:
    """A file of running text, which is one document."""
    from kinfolk.core.files import read_utf8
    from kinfolk.text.running import check_finds_entities, cutter_for, text_corpus

    cutter_for(tagger)  # what a text lacks is said before it is waited for, and before what is said of labels
    if for_entities:
        check_finds_entities(tagger)
    data, name = read_utf8(file)
    return text_corpus(tagger, [data.decode("utf-8")], source=name)


COLUMNS_OF_MODEL = "the file (the model was trained on these columns)"


def _tell_terminal(file: str) -> None:
    if file == "-" and sys.stdin is not None and sys.stdin.isatty():
        typer.echo("reading from the terminal; end with Ctrl-D", err=True)


def read_corpus(tagger: Any, file: str, format: Format, scheme: str, separator: str | None) -> Any:
    """The file with the columns the model was trained on; a column of labels may follow them."""
    from kinfolk.text.conll import read_conll, read_text
    from kinfolk.text.streams import columns_of

    columns = columns_of(tagger)
    _tell_terminal(file)
    if format is Format.text:
        return read_text(file)
    shell_words().instead["columns"] = COLUMNS_OF_MODEL
    return read_conll(file, columns=columns, label="optional", **_form(scheme, separator))
