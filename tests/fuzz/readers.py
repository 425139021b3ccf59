"""What is tried with readers and with the command line: small files of every kind, changed by `mangle`.

What is read is as it is, or an InputError tells the file; a command ends with status 0 or 2.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from mangle import PIECES, archive, mangled
from tries import Target, Wrong

import kinfolk as kf
from kinfolk.datasets.slif import read_slif
from kinfolk.errors import InputError, KinfolkError
from kinfolk.linking.active import AnswerFile
from kinfolk.linking.cluster_files import read_id_pairs
from kinfolk.linking.records import read_pair_labels
from kinfolk.linking.table_files import TableFile

CONLL = b"""-DOCSTART- -X- O

EU NNP I-ORG
rejects VBZ O
German JJ I-MISC
call NN O

Peter NNP I-PER
Blackburn NNP I-PER

-DOCSTART- -X- O

Br\xc3\xbcssel NNP I-LOC
1996-08-22 CD O
"""
TEXT = 'Mr. Smith went to Z\u00fcrich.\nHe (the "boss") said: no!\n\nA second text, 3.5 %.\n'.encode()
NODES = b"""id,topic,year,title,open
a,x,1999,first paper,true
b,y,2001,second one,false
c,x,,third,true
d,,2003,"a, b",true
"""
LINKS = b"source,target,weight,kind\na,b,1,cites\nb,c,2.5,cites\nc,d,1,same\nd,a,1,same\n"
PEOPLE = b"""id,name,city,born,who
1,Ann Lee,Bonn,1980-01-02,p
2,Anne Lee,Bonn,1980-01-02,p
3,Bob Ray,Ulm,,q
4,Bob Rey,Ulm,1975,q
"""
PAIRS = b"left,right,match\n1,2,yes\n1,3,no\n3,4,yes\n"
COREF = b"""#begin document (a); part 000
a 0 0 Ann NNP (1)
a 0 1 saw VBD -
a 0 2 her PRP (1)
a 0 3 big JJ (2
a 0 4 dog NN 2)

a 0 0 It PRP (2)
#end document
"""
PLACE = "data_paper1-figure_fig1-panel_panel_1_textreg_"
SLIF = {
    "all.localmodel": f"{PLACE}1 k NUL POS ocr_C=1 other=1\n{PLACE}2 k NUL NEG other=1\n".encode(),
    "ngb.lsf": f"{PLACE}1 {PLACE}2 left\n{PLACE}2 {PLACE}1 right\n".encode(),
}
PAGE = (
    b"Server: x\n\n<html><title>Ann</title><h1>Home of Ann</h1>words and words <a href=http://b/>Bob</a> " + b"w " * 20
)
GENIA = b"""<?xml version="1.0" encoding="UTF-8"?><set><article><title><sentence><cons sem="G#protein_molecule">IL-2
</cons> gene &lt; x.</sentence></title><abstract><sentence>The <cons sem="(AND G#protein_N/A G#protein_N/A)">a and b
</cons>.</sentence></abstract></article></set>"""
AIMED = b"""<?xml version="1.0"?><corpus><document id="d0"><sentence text="A binds B."><entity charOffset="0-1" text="A"
type="protein"/></sentence></document></corpus>"""
YAPEX = b"""<PubmedArticle><ArticleTitle>Role of <Protname>beta1</Protname></ArticleTitle><AbstractText>It binds
<Protname>Ran</Protname>GTP.</AbstractText></PubmedArticle>"""
MAIL = {
    "set/data/1": b"Hi Zoe,\n\nsee Kim & Lee.\n",
    "set/label/1.xml": b"<a><Person><start>3</start><end>6</end><annotation>Zoe</annotation></Person></a>",
}
CONTENT = b"p1\t0\t1\t0\tx\np2\t1\t0\t0.5\ty\np3\t0\t0\t1\tx\n"
CITES = b"p1\tp2\np2 p3\n"

Files = Mapping[str, bytes]
Read = Callable[[Path], Any]


def parquet(text: bytes) -> bytes:
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv(io.BytesIO(text)), out := io.BytesIO())
    return out.getvalue()


def _people(folder: Path) -> Any:
    return kf.read_records(io.BytesIO(PEOPLE), cluster="who")


# name -> files, and what reads them from their folder
READERS: dict[str, tuple[Files, Read]] = {
    "conll": ({"a.conll": CONLL}, lambda f: kf.read_conll(f / "a.conll")),
    "conll, tabs": ({"a.conll": CONLL.replace(b" ", b"\t")}, lambda f: kf.read_conll(f / "a.conll", separator="\t")),
    "conll, named": (
        {"a.conll": CONLL},
        lambda f: kf.read_conll(f / "a.conll", columns=["word", "pos", "ner"], label="ner", scheme="BIO"),
    ),
    "text": ({"a.txt": TEXT}, lambda f: kf.read_text(f / "a.txt")),
    "text, fine": ({"a.txt": TEXT}, lambda f: kf.read_text(f / "a.txt", tokenise="fine")),
    "gazetteer": ({"a.txt": TEXT}, lambda f: kf.read_gazetteer(f / "a.txt")),
    "tables": (
        {"n.csv": NODES, "l.csv": LINKS},
        lambda f: kf.read_tables(
            f / "n.csv", f / "l.csv", label="topic", text="title", source="source", target="target"
        ),
    ),
    "tables, more": (
        {"n.csv": NODES, "l.csv": LINKS},
        lambda f: kf.read_tables(
            f / "n.csv", {"r": f / "l.csv"}, label="topic", features=["year"], weight="weight", relation="kind"
        ),
    ),
    "tables, parquet": (
        {"n.parquet": parquet(NODES), "l.csv": LINKS},
        lambda f: kf.read_tables(f / "n.parquet", f / "l.csv", label="topic", features=["year"]),
    ),
    "records": ({"r.csv": PEOPLE}, lambda f: kf.read_records(f / "r.csv", cluster="who")),
    "records, truth": (
        {"r.csv": PEOPLE, "t.csv": b"1,2\n3,4\n"},
        lambda f: kf.read_records(f / "r.csv", truth=f / "t.csv"),
    ),
    "records, two": ({"r.csv": PEOPLE, "s.csv": PEOPLE}, lambda f: kf.read_records(f / "r.csv", f / "s.csv")),
    "records, parquet": ({"r.parquet": parquet(PEOPLE)}, lambda f: kf.read_records(f / "r.parquet", cluster="who")),
    "table files": ({"r.csv": PEOPLE}, lambda f: TableFile.read(f / "r.csv")),
    "pair labels": ({"p.csv": PAIRS}, lambda f: read_pair_labels(f / "p.csv", _people(f))),
    "id pairs": ({"p.txt": b"1,2\n3 4\n"}, lambda f: read_id_pairs(f / "p.txt", _people(f))),
    "answers": ({"p.csv": PAIRS}, lambda f: AnswerFile(f / "p.csv", _people(f)).close()),
    "coref": ({"a.conll": COREF}, lambda f: kf.read_coref(f / "a.conll")),
    "coref, dropped": ({"a.conll": COREF}, lambda f: kf.read_coref(f, unmatched="drop", duplicates="keep")),
    "linqs": ({"a.content": CONTENT, "a.cites": CITES}, lambda f: kf.read_linqs(f / "a.content", f / "a.cites")),
    "slif": (SLIF, read_slif),
    "webkb": (
        {f"webkb/student/texas/http:^^{name}^": PAGE for name in "abc"},
        lambda f: kf.read_webkb(f, subset=None, min_count=1),
    ),
    "mail": (MAIL, kf.read_mail),
    "genia": ({"a.xml": GENIA}, kf.read_genia),
    "aimed": ({"a.xml": AIMED}, lambda f: kf.read_aimed([f / "a.xml"])),
    "yapex": ({"a.xml": YAPEX}, kf.read_yapex),
}
PACKED = ("coref, dropped", "webkb", "mail", "genia", "yapex")  # may be a tar archive in the place of the folder


def reader_targets() -> list[Target]:
    return [Target(f"reader {name}", _attempt(name)) for name in READERS]


def _attempt(name: str) -> Callable[[Random, Path], None]:
    files, read = READERS[name]

    def attempt(rng: Random, folder: Path) -> None:
        place = folder / "read"
        changed = dict(files)
        for _ in range(rng.choice((1, 1, 2))):
            one = rng.choice(sorted(files))
            changed[one] = mangled(changed[one], rng)
        put(place, archive(changed, rng) if name in PACKED and rng.random() < 0.6 else changed)
        read_or_told(read, place)

    return attempt


def put(place: Path, content: Files | bytes) -> None:
    """A folder of files, or one file, in the place of what was there."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    if isinstance(content, bytes):
        place.write_bytes(content)
        return
    for name, data in content.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)


def read_or_told(read: Read, place: Path) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            read(place)
        except InputError as error:
            if str(place) not in str(error):
                raise Wrong(f"a message without the file: {error}") from None
        except KinfolkError:
            return


# -- commands -------------------------------------------------------------------------------------------

# arguments, @NAME being a file in the folder
COMMANDS: Sequence[str] = (
    "tokens tag @crf.kinfolk @a.conll --output @out.conll",
    "tokens tag @crf.kinfolk @a.conll --json",
    "tokens evaluate @crf.kinfolk @a.conll",
    "tokens train --train @a.conll --model maxent --tolerance 0.5 --out @new.kinfolk",
    "nodes train --nodes @n.csv --edges @l.csv --label topic --model stacked --base nb --folds 2 --out @n.kinfolk",
    "nodes predict @stacked-logistic.kinfolk --nodes @n.csv --edges @l.csv",
    "nodes evaluate @link.kinfolk --nodes @n.csv --edges @l.csv --label topic",
    "records train --records @r.csv --cluster who --block key(city) --out @new.kinfolk",
    "records cluster @linker.kinfolk --records @customers.csv",
    "records evaluate @linker.kinfolk --records @customers.csv --cluster entity --json",
    "records show @linker.kinfolk",
    "explain @crf.kinfolk --token 1 --document 0 @a.conll",
)
FILES: Files = {"a.conll": CONLL, "n.csv": NODES, "l.csv": LINKS, "r.csv": PEOPLE}
WORDS = (
    "",
    "-",
    "--",
    "-1",
    "0",
    "nan",
    "1e400",
    "@",
    "--help",
    "--json",
    "--jobs",
    "--label",
    "x" * 500,
    "\n",
    "é",
    "/dev/null",
    "/",
)


def command_targets(net: Path) -> list[Target]:
    """`net`: a folder with the files of `tests/net`."""
    kept = {
        name: (net / name).read_bytes()
        for name in ("customers.csv", "crf.kinfolk", "linker.kinfolk", "link.kinfolk", "stacked-logistic.kinfolk")
    }
    return [Target(f"command {words.split(' @')[0]}", _command_attempt(words, {**FILES, **kept})) for words in COMMANDS]


def _command_attempt(words: str, files: Files) -> Callable[[Random, Path], None]:
    def attempt(rng: Random, folder: Path) -> None:
        place, changed, given = folder / "run", dict(files), words.split(" ")
        if rng.random() < 0.6:
            named = [one for one in changed if f"@{one}" in words]
            one = rng.choice(named)
            changed[one] = mangled(changed[one], rng)
        else:
            given = _other_arguments(given, rng)
        put(place, changed)
        ran([word.replace("@", f"{place}/") if word[:1] == "@" else word for word in given], place)

    return attempt


def _other_arguments(words: list[str], rng: Random) -> list[str]:
    found = list(words)
    for _ in range(rng.choice((1, 1, 2))):
        at, way = rng.randrange(1, len(found) + 1), rng.randrange(4)
        if way == 0 and at < len(found):
            del found[at]
        elif way == 1:
            found.insert(at, rng.choice((*WORDS, *words)))
        elif way == 2 and at < len(found):
            found[at] = rng.choice((*WORDS, *words))
        elif at < len(found):
            found[at] = found[at] + rng.choice([one.decode("utf-8", "replace").replace("\0", "") for one in PIECES])
    return found


def ran(words: list[str], place: Path) -> None:
    """Raise unless the command ends as commands do."""
    from kinfolk.cli.main import run

    out, err, before = io.StringIO(), io.StringIO(), (sys.argv, sys.stdin, os.getcwd(), warnings.showwarning)
    sys.argv, sys.stdin = ["kinfolk", *words], io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")
    os.chdir(place)
    handlers = list(logging.getLogger("kinfolk").handlers)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run()
    except SystemExit as end:
        if end.code not in (0, None, 2):
            raise Wrong(f"exit status {end.code} of {words}: {err.getvalue()[-300:]}") from None
        if "Traceback" in err.getvalue():
            raise Wrong(f"a traceback: {err.getvalue()[-300:]}") from None
    finally:
        sys.argv, sys.stdin = before[:2]
        os.chdir(before[2])
        warnings.showwarning = before[3]
        logging.getLogger("kinfolk").handlers[:] = handlers
