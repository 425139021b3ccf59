"""The labels a tagger is trained on: told in its summary, and doubted where the file may have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinfolk.cli.output import printable

if TYPE_CHECKING:
    from kinfolk.text.corpus import Corpus

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


def doubt_about_labels(corpus: Corpus) -> str | None:
    """What to warn of if nobody said which column holds the labels, and the last one looks like another."""
    if corpus.labels is None or corpus.scheme is not None:
        return None
    names = corpus.labels.values
    of_speech = sum(name in PARTS_OF_SPEECH for name in names)
    if len(names) <= MANY and not (len(names) > 2 and of_speech >= len(names) / 2):
        return None
    shown = ", ".join([*sorted(names, key=lambda name: not name[:1].isalnum())[:2], "..."])
    told = f"the last column has {len(names)} labels that are no spans ({shown}); is it the label column?"
    return printable(f"{told} --label names another")
