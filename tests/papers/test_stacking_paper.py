"""Tables 1 and 2 and Figure 4 of the stacking paper: the form of their rows on made-up data, one figure on the real."""

from __future__ import annotations

import gzip
import io
import json
import math
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import kinfolk as kf
from kinfolk.cli import reproduce
from kinfolk.cli.main import app
from kinfolk.papers import data as graphs
from kinfolk.papers import gibbs as gibbs_convergence
from kinfolk.papers import gibbs as gibbs_speed
from kinfolk.papers import harness
from kinfolk.papers import mixture as chain_conll
from kinfolk.papers import mixture as mop_conll
from kinfolk.papers import stacking as stacked_citations
from kinfolk.papers import stacking as stacked_names
from kinfolk.papers import stacking as stacked_slif
from kinfolk.papers import stacking as stacked_webkb
from kinfolk.papers.data import Split, by_group, by_instance
from kinfolk.papers.harness import Run, table
from kinfolk.papers.stacking import five_models, maxent

FIVE = ["local", "dependency network", "stacked k=1", "stacked k=2", "ceiling"]
FOLDS = [f"fold {n}" for n in range(5)]
SCHOOLS = ["cornell", "texas", "washington", "wisconsin"]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of linear algebra would only wait for each other on tables this small."""
    with threadpool_limits(1):
        yield


# -- small data in the layout of the data folder


def labels_and_links(rng: np.random.Generator, n: int, n_classes: int) -> tuple[Any, list[tuple[int, int]]]:
    """Labels, and links mostly among equals."""
    codes = rng.permutation(np.arange(n) % n_classes)
    links = []
    for i in range(n):
        likely = np.where(codes == codes[i], 6.0, 1.0)
        likely[i] = 0
        links += [(i, int(j)) for j in rng.choice(n, 3, replace=False, p=likely / likely.sum())]
    return codes, links


def words_of(rng: np.random.Generator, code: int, n_classes: int) -> list[int]:
    """12 words, of which four are likelier in a class."""
    return (rng.random(12) < np.where(np.arange(12) % n_classes == code, 0.6, 0.3)).astype(int).tolist()


def write_citations(data: Path, name: str, classes: list[str], seed: int, n: int = 60) -> None:
    rng = np.random.default_rng(seed)
    codes, links = labels_and_links(rng, n, len(classes))
    lines = [
        "\t".join([f"p{i}", *map(str, words_of(rng, y, len(classes))), classes[y]]) + "\n" for i, y in enumerate(codes)
    ]
    folder = data / "nodes" / f"{name}_linqs"
    folder.mkdir(parents=True)
    (folder / f"{name}.content.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / f"{name}.cites").write_text("".join(f"p{j}\tp{i}\n" for i, j in links))


def write_schools(data: Path) -> None:
    """LINQS's form of the four departments."""
    folder = data / "nodes" / "webkb_linqs"
    folder.mkdir(parents=True)
    classes = ["course", "faculty", "student"]
    for seed, school in enumerate(SCHOOLS):
        rng = np.random.default_rng(seed)
        codes, links = labels_and_links(rng, 18, 3)
        rows = ["\t".join([f"{school}{i}", *map(str, words_of(rng, y, 3)), classes[y]]) for i, y in enumerate(codes)]
        (folder / f"{school}.content").write_text("\n".join(rows) + "\n")
        (folder / f"{school}.cites").write_text("".join(f"{school}{j} {school}{i}\n" for i, j in links))


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def write_pages(data: Path) -> None:
    """The raw pages: courses, students and faculty of each school, and its front page."""
    folder = data / "nodes" / "webkb_raw_cmu"
    folder.mkdir(parents=True)
    classes = ["course", "faculty", "student"]
    with tarfile.open(folder / "webkb.tar.gz", "w:gz") as archive:
        for seed, school in enumerate(SCHOOLS):
            rng = np.random.default_rng(10 + seed)
            codes, links = labels_and_links(rng, 15, 3)
            address = lambda i, school=school: f"http://www.cs.{school}.edu/page{i}.html"  # noqa: E731
            for i, y in enumerate(codes):
                words = " ".join(f"word{'abcdefghijkl'[k]}" for k, there in enumerate(words_of(rng, y, 3)) if there)
                anchors = "".join(f'<a href="{address(j)}">see</a> ' for a, j in links if a == i)
                page = f"MIME-Version: 1.0\n\n<title>A page</title><body>{words} {anchors}</body>"
                add_file(archive, f"webkb/{classes[y]}/{school}/{address(i).replace('/', '^')}", page.encode())
            front = f"http:^^www.cs.{school}.edu^"
            add_file(archive, f"webkb/department/{school}/{front}", b"MIME-Version: 1.0\n\n<title>Front page</title>")


def write_slif(data: Path, figures: int = 12) -> None:
    folder = data / "nodes" / "slif_sgm_minorthird"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(5)
    name = lambda f, p, r: f"data_paper1-figure_figure{f:04d}-panel_panel_{p}_textreg_{r}.jpg"  # noqa: E731
    regions, links = [], []
    for f in range(figures):
        text = rng.integers(1, 4)  # the region that is text, the same in all panels of a figure
        for p in (1, 2):
            for r in (1, 2, 3):
                told = [w for w in ("ocr_C", "ocr_R") if rng.random() < (0.7 if r == text else 0.4)]
                label = "POS" if r == text else "NEG"
                regions.append(f"{name(f, p, r)} k NUL {label}  {'  '.join(f'{w}=1' for w in told)}\n")
        for r in (1, 2, 3):
            links.append(f"{name(f, 1, r)} \t{name(f, 2, r)}  {('left', 'up')[f % 2]}\n")
            links.append(f"{name(f, 2, r)} \t{name(f, 1, r)}  {('right', 'down')[f % 2]}\n")
    (folder / "all.localmodel").write_text("".join(regions))
    (folder / "ngb.lsf").write_text("".join(links))


def some_names(rng: np.random.Generator, sentences: int = 3) -> list[list[tuple[str, bool]]]:
    """A document: sentences of words, and which of them are names."""
    names = [f"{a}{b}" for a in ("Kinase", "Factor", "Lee") for b in ("", "beta", "gamma")]
    own = rng.choice(names, 2, replace=False)
    plain = ["the", "cell", "binds", "and", "of", "it", "was", "seen"]
    made = lambda: (str(rng.choice(own)), True) if rng.random() < 0.3 else (str(rng.choice(plain)), False)  # noqa: E731
    return [[made() for _ in range(6)] for _ in range(sentences)]


DOCUMENTS = 12


def write_genia(data: Path) -> None:
    folder, rng, articles = data / "tokens" / "genia", np.random.default_rng(6), []
    folder.mkdir(parents=True)
    for _ in range(DOCUMENTS):
        marked = [
            " ".join(f'<cons sem="G#protein_molecule">{w}</cons>' if is_name else w for w, is_name in sentence)
            for sentence in some_names(rng)
        ]
        title, *rest = [f"<sentence>{sentence}</sentence>" for sentence in marked]
        articles.append(f"<article><title>{title}</title><abstract>{''.join(rest)}</abstract></article>")
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<set>{"".join(articles)}</set>'
    with tarfile.open(folder / "GENIAcorpus3.02.tgz", "w:gz") as archive:
        add_file(archive, "GENIA_term_3.02/GENIAcorpus3.02.xml", text.encode())


def write_aimed(data: Path) -> None:
    folder, rng = data / "tokens" / "aimed_ppi", np.random.default_rng(7)
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        documents = []
        for _ in range(DOCUMENTS // 2):
            told = ""
            for sentence in some_names(rng):
                text, entities = "", ""
                for word, is_name in sentence:
                    start = len(text) + (1 if text else 0)
                    text = f"{text} {word}" if text else word
                    if is_name:
                        entities += f'<entity charOffset="{start}-{len(text)}" text="{word}" type="protein"/>'
                told += f'<sentence text="{text}">{entities}</sentence>'
            documents.append(f"<document>{told}</document>")
        (folder / f"AIMed-{part}.xml").write_text(f"<corpus>{''.join(documents)}</corpus>")


def write_enron(data: Path) -> None:
    folder, rng = data / "tokens" / "enron_person", np.random.default_rng(8)
    folder.mkdir(parents=True)
    with tarfile.open(folder / "enron_person.tar.gz", "w:gz") as archive:
        for split in ("training", "test"):
            for number in range(DOCUMENTS // 2):
                text, marks = "", ""
                for sentence in some_names(rng):
                    for word, is_name in sentence:
                        if is_name:
                            place = f"<start>{len(text)}</start><end>{len(text) + len(word)}</end>"
                            marks += f"<Person>{place}<annotation>{word}</annotation></Person>"
                        text += f"{word} "
                    text += "\n"
                where = f"personSelfLabel-{split}"
                add_file(archive, f"{where}/data/{number}", text.encode("latin-1"))
                add_file(archive, f"{where}/label/{number}.xml", f"<text>{marks}</text>".encode("latin-1"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_citations(folder, "cora", ["Theory", "Rules", "Nets"], 0)
    write_citations(folder, "citeseer", ["Agents", "IR"], 1, n=40)
    for write in (write_schools, write_pages, write_slif, write_genia, write_aimed, write_enron):
        write(folder)
    return folder


# -- what every row has


def quiet(line: str) -> None:
    assert isinstance(line, str)


def check_rows(report: Any, experiment: str, metric: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The keys of design.md; means are means; the mean rows by dataset and model."""
    told = json.loads(json.dumps(report.as_dict(), default=repr, allow_nan=False))
    assert list(told) == ["experiment", "rows", "seconds", "settings"]
    assert told["experiment"] == experiment and told["seconds"] > 0 and told["settings"]
    by_model: dict[tuple[str, str], list[float]] = {}
    means = {}
    for row in told["rows"]:
        assert list(row)[:4] == ["model", "dataset", "split", metric]
        assert all(isinstance(row[key], str) for key in ("model", "dataset", "split"))
        assert 0 <= row[metric] <= 100
        place = row["dataset"], row["model"]
        if row["split"] == "mean":
            means[place] = row
            assert 0 <= row.get("p_value", 0) <= 1
        elif row["split"] != "all pages":
            assert "p_value" not in row
            by_model.setdefault(place, []).append(row[metric])
    assert means.keys() == by_model.keys()
    for place, scores in by_model.items():
        assert means[place][metric] == pytest.approx(np.mean(scores))
    return means


def models(report: Any, dataset: str) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in report.rows if row["dataset"] == dataset))


def splits(report: Any, dataset: str, model: str) -> list[str]:
    return [row["split"] for row in report.rows if (row["dataset"], row["model"]) == (dataset, model)]


# -- what the experiments on graphs share


def test_a_table_has_means_and_p_values():
    found = {"local": [1.0, 2.0, 4.0], "stacked k=1": [3.0, 3.0, 9.0]}
    rows = table("cora", ["a", "b", "c"], found, "stacked k=1", "f1")
    assert rows[0] == {"model": "local", "dataset": "cora", "split": "a", "f1": 1.0}
    assert [row["split"] for row in rows] == ["a", "b", "c"] * 2 + ["mean", "mean"]
    assert rows[-1].items() >= {"model": "stacked k=1", "dataset": "cora", "split": "mean", "f1": 5.0}.items()
    assert "p_value" not in rows[-1] and rows[-1]["lower"] < 5.0 < rows[-1]["upper"]
    assert rows[-2]["p_value"] == pytest.approx(stats.ttest_rel(*found.values()).pvalue)
    with pytest.raises(ValueError):
        table("cora", ["a"], found, "stacked k=1")


def test_folds_by_instance_and_by_group(data: Path):
    cora = graphs.PROBLEMS["cora"](data).graph
    tests = []
    for number, split in enumerate(by_instance(cora)):
        assert split.name == f"fold {number}" and split.fit is split.target is cora
        assert not set(split.train) & set(split.test) and len(split.train) + len(split.test) == cora.n_nodes
        tests += split.test.tolist()
    assert sorted(tests) == list(range(cora.n_nodes))
    schools = stacked_webkb.linqs_pages(data)
    parts = list(by_group(schools))
    assert [split.name for split in parts] == SCHOOLS
    for split in parts:
        inside = {key for key in schools.ids if key.startswith(split.name)}
        assert set(split.target.ids) == inside and set(split.fit.ids) == set(schools.ids) - inside
        assert len(split.test) == split.target.n_nodes


def test_accuracy_is_of_the_scored_nodes_alone():
    graph = kf.Graph(np.zeros((4, 1)), ["a", "b", "a", "b"], {"r": []})
    split = Split("s", graph, np.array([0]), graph, np.array([1, 2, 3]))
    chances = np.array([[0, 1.0], [0.2, 0.8], [0.4, 0.6], [0.9, 0.1]])
    assert split.accuracy(chances, np.array(["a", "b"], object)) == pytest.approx(100 / 3)
    assert split.accuracy(chances, np.array(["b", "a"], object)) == pytest.approx(200 / 3)


@pytest.mark.filterwarnings("ignore:count:kinfolk.errors.DataWarning")
@pytest.mark.parametrize("known", ["crossfit", "true"])
def test_five_models_are_what_their_names_say(known: str, data: Path):
    """Each beside the model a user would build."""
    problem = graphs.PROBLEMS["cora"](data)
    split = problem.splits[0]
    found = five_models(split, problem.templates, known, 1)
    assert list(found) == FIVE
    gold = np.array(split.target.labels)[split.test]

    def score(model: Any, **how: Any) -> float:
        return 100 * (model.fit(split.fit, train=split.train).predict(split.target, **how)[split.test] == gold).mean()

    stack = {"base": maxent(), "templates": problem.templates, "n_jobs": 1}
    assert found["local"] == pytest.approx(score(kf.StackedNodes(**stack, depth=0)))
    assert found["stacked k=2"] == pytest.approx(score(kf.StackedNodes(**stack, depth=2, known=known)))
    assert found["ceiling"] == pytest.approx(score(kf.StackedNodes(**stack, known="ceiling")))
    rival = kf.DependencyNetwork(maxent(), problem.templates, burn_in=100, sweeps=200, n_jobs=1)
    told = "train" if known == "true" else "none"
    assert found["dependency network"] == pytest.approx(score(rival, known=told))


def test_the_graphs_of_the_paper(data: Path):
    found = {name: make(data) for name, make in graphs.PROBLEMS.items()}
    assert list(found) == ["slif", "webkb", "cora", "citeseer"] == [problem.name for problem in found.values()]
    assert [len(problem.splits) for problem in found.values()] == [5, 4, 5, 5]
    assert set(found["webkb"].graph.labels) == {"course", "faculty", "student"}, "no front pages"
    assert found["webkb"].graph.n_nodes == 60 and found["webkb"].graph.relations["links"].nnz == 180
    assert all(name.startswith(("text:", "title:")) for name in found["webkb"].graph.feature_names)
    assert list(map(repr, found["cora"].templates)) == ["Count('cites')", "Count('cited_by')"]
    sides = {template.rule.name for template in found["slif"].templates}
    assert sides == {"left", "right", "up", "down", "competitor"}


# -- citations


@pytest.fixture
def small_citations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked_citations, "ALPHAS", (0.1, 0.5))
    monkeypatch.setattr(stacked_citations, "CS", (1.0, 3.0))


def test_rows_of_cora(data: Path, tmp_path: Path, small_citations: None):
    out = tmp_path / "rows.json"
    result = CliRunner().invoke(
        app, ["reproduce", "stacked-cora", "--data", str(data), "--json", str(out), "--jobs", "1"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_text())
    known = [f"{name}, known labels" for name in FIVE]
    best = [stacked_citations.LOCAL_BEST, "smoothed words", stacked_citations.BEST]
    assert list(dict.fromkeys(row["model"] for row in report["rows"])) == [*FIVE, *known, *best]
    assert [row["split"] for row in report["rows"] if row["model"] == "local"] == [*FOLDS, "mean"]
    assert {row["dataset"] for row in report["rows"]} == {"cora"}
    means = {row["model"]: row for row in report["rows"] if row["split"] == "mean"}
    reference = {"stacked k=1", "stacked k=1, known labels", stacked_citations.BEST}
    assert {name for name, row in means.items() if "p_value" not in row} == reference
    chosen = report["settings"]["chosen on training papers"]
    assert list(chosen) == FOLDS and {one["alpha"] for one in chosen.values()} <= {0.1, 0.5}
    assert {one[name] for one in chosen.values() for name in ("C", "C of local best")} <= {1.0, 3.0}
    said = {row["model"]: row["chosen_on"] for row in report["rows"]}
    assert all(said[name].startswith("nothing") for name in (*FIVE, *known))
    assert all("three folds of the training papers" in said[name] for name in best)
    assert report["settings"]["base"] == repr(maxent())
    assert all(str(figure) in result.output for figure in (63.9, 72.9, 73.8, 73.9, 76.9)), "the paper's beside ours"


def test_rows_of_citeseer(data: Path, small_citations: None):
    told: list[str] = []
    report = stacked_citations.stacked_citeseer(data, told.append, 1)
    means = check_rows(report, "stacked-citeseer", "accuracy")
    assert len(means) == 13 and report.paper["citeseer", "ceiling", "mean"] == {"accuracy": 62.3}
    assert sum(line.startswith("citeseer, fold") for line in told) == 15
    alone = means["citeseer", "local"]["accuracy"]
    assert means["citeseer", "ceiling"]["accuracy"] > alone + 5, "links tell something in this world"
    assert means["citeseer", "stacked k=1, known labels"]["accuracy"] > alone


def test_rare_words_weigh_more_and_rows_have_length_1():
    X = np.array([[1.0, 1, 0], [1, 0, 0], [0, 0, 0], [2, 0, 1]])
    graph = kf.Graph(sparse.csr_array(X), None, {"r": []}, feature_names=["a", "b", "c"])
    found = stacked_citations.weighted(graph)
    rare = np.array([math.log(5 / 4), math.log(5 / 2), math.log(5 / 2)]) + 1
    rows = X * rare
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.features.toarray(), rows / np.where(lengths > 0, lengths, 1))
    assert found.feature_names == ("a", "b", "c")
    dense = stacked_citations.weighted(graph.with_features(X))
    np.testing.assert_allclose(dense.features.toarray(), found.features.toarray())


# -- SLIF


def test_rows_of_slif(data: Path, monkeypatch: pytest.MonkeyPatch):
    """Two of the five folds, some of the templates."""
    problem = graphs.slif(data)
    figures = list(stacked_slif.by_figure(problem.graph))[:2]
    monkeypatch.setattr(stacked_slif, "SLIF_WIDE", stacked_slif.SLIF_WIDE[:5])
    monkeypatch.setattr(stacked_slif, "slif", lambda data: problem._replace(splits=problem.splits[:2]))
    ordered = [split._replace(fit=stacked_slif.with_order(split.fit), target=stacked_slif.with_order(split.target))
               for split in figures]  # fmt: skip
    monkeypatch.setattr(stacked_slif, "by_figure", lambda graph: figures if graph is problem.graph else ordered)
    report = stacked_slif.stacked_slif(data, quiet, n_jobs=1)
    means = check_rows(report, "stacked-slif", "accuracy")
    known = [f"{name}, known labels" for name in FIVE]
    wide = [[f"local {kind}", f"stacked {kind} k=1", f"stacked {kind} k=2"] for kind in ("wide", "order")]
    told = [f"{name}, known labels" for name in wide[0]]
    assert models(report, "slif") == [*FIVE, *known, *told, *wide[0], *wide[1]]
    assert models(report, "slif by figure") == [*FIVE, *wide[0], *wide[1]]
    for dataset in ("slif", "slif by figure"):
        assert splits(report, dataset, "stacked k=1") == [*FOLDS[:2], "mean"]
        assert means[dataset, "ceiling"]["accuracy"] > means[dataset, "local"]["accuracy"]
        assert means[dataset, "local"]["accuracy"] == pytest.approx(means[dataset, "local wide"]["accuracy"])
    assert report.settings["wide templates"] == [repr(template) for template in stacked_slif.SLIF_WIDE]
    assert report.paper["slif", "stacked k=2", "mean"] == {"accuracy": 90.1}


def test_folds_by_figure_never_divide_a_figure(data: Path):
    graph = graphs.slif(data).graph
    scored = []
    for split in stacked_slif.by_figure(graph):
        assert not set(split.fit.group_names[g] for g in split.fit.group_codes) & {
            split.target.group_names[g] for g in split.target.group_codes
        }
        scored += [split.target.ids[i] for i in split.test]
    assert sorted(scored) == sorted(graph.ids)


def test_the_order_of_regions_is_one_more_feature(data: Path):
    graph = stacked_slif.with_order(graphs.slif(data).graph)
    assert graph.feature_names[-1] == "regions before"
    column = graph.features.toarray()[:, -1]
    numbers = [int(key.split("textreg_")[1].split(".")[0]) for key in graph.ids]
    np.testing.assert_allclose(column, np.log([1, 2, 3])[np.array(numbers) - 1], rtol=1e-6)


# -- WebKB


def test_rows_of_webkb(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stacked_webkb, "RELATIONS", stacked_webkb.RELATIONS[:1])
    monkeypatch.setattr(stacked_webkb, "DEPTH", 1)
    monkeypatch.setattr(stacked_webkb, "WORD_CS", (0.1, 1.0))
    report = stacked_webkb.stacked_webkb(data, quiet, n_jobs=1)
    means = check_rows(report, "stacked-webkb", "accuracy")
    assert models(report, "webkb") == FIVE and models(report, "webkb-linqs") == [*FIVE, "local best", "stacked best"]
    assert splits(report, "webkb", "local") == [*SCHOOLS, "mean"]
    assert splits(report, "webkb-linqs", "stacked best") == [*SCHOOLS, "mean", "all pages"]
    local, best = means["webkb", "local"], means["webkb", "ceiling"]
    assert local["fewer_errors"] == 0
    gone = 100 * (best["accuracy"] - local["accuracy"]) / (100 - local["accuracy"])
    assert best["fewer_errors"] == pytest.approx(gone)
    chosen = report.settings["chosen by leaving out each of the three training schools"]
    assert list(chosen) == SCHOOLS
    for of_school in chosen.values():
        for name, choice in of_school.items():
            assert choice["words"] in stacked_webkb.WORDS and choice["relations"] in stacked_webkb.RELATIONS
            assert choice["c"] in (0.1, 1.0) and choice["depth"] in ((0,) if name == "local best" else (0, 1))
    pooled = next(row for row in report.rows if row["split"] == "all pages" and row["model"] == "stacked best")
    assert "p_value" not in pooled and "lower" not in pooled, "those are of the means"
    schools = [row["accuracy"] for row in report.rows if row["model"] == "stacked best" and row["split"] in SCHOOLS]
    assert pooled["accuracy"] == pytest.approx(np.mean(schools)), "schools are of one size here"


# -- names in text


@pytest.fixture
def small_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the five folds."""
    monkeypatch.setattr(stacked_names, "FOLDS", 2)
    monkeypatch.setattr(stacked_names, "TOLERANCE", 0.1)


@pytest.mark.parametrize("name", ["genia", "aimed", "enron"])
def test_rows_of_names(name: str, data: Path, tmp_path: Path, small_names: None):
    out = tmp_path / "rows.json"
    command = ["reproduce", f"stacked-{name}", "--data", str(data), "--json", str(out), "--jobs", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_text())
    assert report["experiment"] == f"stacked-{name}"
    rows = report["rows"]
    names = [*stacked_names.NAME_ROWS, *stacked_names.PRINTED_ROWS[1:], "local best", "stacked best"]
    assert list(dict.fromkeys(row["model"] for row in rows)) == names
    assert {row["dataset"] for row in rows} == {name}
    assert [row["split"] for row in rows if row["model"] == "local"] == ["fold 0", "fold 1", "mean"]
    for row in rows:
        assert 0 <= row["f1"] <= 100
        reference = row["model"] in ("stacked k=1", "stacked best")
        assert ("p_value" in row) == (row["split"] == "mean" and not reference)
        assert "fifth of the training documents" in row["chosen_on"]
    chosen = report["settings"]["chosen on a fifth of the training documents"]
    assert [list(of_fold) for of_fold in chosen.values()] == [["fold 0", "fold 1"]] * 3
    assert set(chosen["ridge"].values()) <= {0.3, 1.0, 3.0, 10.0}
    assert {one.partition(",")[0] for one in chosen["templates of best"].values()} <= set(stacked_names.STACKS)
    assert report["settings"]["templates"] == [repr(template) for template in stacked_names.GRAPHICAL]
    assert f"{DOCUMENTS} documents" in result.output
    mean = next(row["f1"] for row in rows if row["model"] == "ceiling" and row["split"] == "mean")
    assert mean > 50, "names can be learned in this world"


def test_figures_of_the_paper_stand_beside_its_own_setting():
    """The window and the same word: what has more templates has no figure of the paper beside it."""
    models = ["local", *(f"{model}, as in the paper" for model in stacked_names.NAME_ROWS[1:])]
    assert list(stacked_names.PRINTED_ROWS) == models
    assert list(map(repr, stacked_names.SAME_WORD)) == [repr(kf.Window(3)), repr(kf.Count(stacked_names.EVERY_WORD))]


def test_the_ridge_is_chosen_on_training_documents():
    """The one that does best on a fifth of them."""
    train, _ = kf.newswire_split(10, 1)
    folds = list(stacked_names.document_folds(train, 5))
    assert [(fold.train.n_documents, fold.test.n_documents) for fold in folds] == [(8, 2)] * 5
    _, fit, held = folds[0]
    ridges, told = (0.1, 1000.0), []
    how = {"tolerance": stacked_names.TOLERANCE, "n_jobs": 1}
    scores = [kf.LinearChainCRF(l2=l2, **how).fit(fit).score(held) for l2 in ridges]
    assert scores[0] > scores[1]
    run = Run(Path(), told.append, 1)
    chosen = [stacked_names.chosen_crf(run, train, order).l2 for order in (ridges, ridges[::-1])]
    assert chosen == [0.1, 0.1]
    listed = [f"ridge {l2:g}, penalty 0: {100 * score:.2f}" for l2, score in zip(ridges, scores, strict=True)]
    assert ", ".join(listed) in told[0]


def test_stacks_share_their_first_level_and_are_what_they_would_be_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stacked_names.SharedCRF, "STORE", {})
    train, test = kf.newswire_split(10, 4)
    templates = [kf.Window(1)]
    bases = [*(stacked_names.crf(1.0, 1) for _ in range(2)), kf.LinearChainCRF(l2=1.0, tolerance=1e-3, n_jobs=1)]
    *shared, alone = (kf.StackedTagger(one, templates, depth=1, folds=5, n_jobs=1).fit(train) for one in bases)
    assert len(stacked_names.SharedCRF.STORE) == 6, "five folds left out, and none; levels above are not shared"
    assert shared[0].predict(test) == shared[1].predict(test) == alone.predict(test)
    other = stacked_names.crf(100.0, 1).fit(train)
    assert (other.weights_.node != shared[0].levels_[0].weights_.node).any(), "another ridge is another model"


def test_rows_of_conll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from kinfolk.papers import stacking as stacked_conll

    folder = tmp_path / "tokens" / "conll2003"
    folder.mkdir(parents=True)
    train, test = kf.newswire_split(8, 3)
    for part, corpus in {"train": train, "testa": test, "testb": test.documents(0, 2)}.items():
        kf.write_conll(corpus, folder / f"eng.{part}")
    monkeypatch.setattr(chain_conll, "GRID", {"l2": (0.1,), "encoding": ("BIO",)})
    monkeypatch.setattr(mop_conll, "TRAINING", ({"l2": 0.1},))
    monkeypatch.setattr(mop_conll, "SKIPS", ({},))
    monkeypatch.setattr(mop_conll, "EDGES", ({},))
    monkeypatch.setattr(stacked_conll, "DEPTH", 1)
    report = stacked_conll.stacked_conll(tmp_path, quiet, n_jobs=1)
    told = json.loads(json.dumps(report.as_dict(), default=repr))
    alone = ["linear-chain CRF", "stacked k=1"]
    names = [*alone, *(f"{name}, document features" for name in alone), "mixture separate"]
    assert list(dict.fromkeys(row["model"] for row in told["rows"])) == names
    assert [row["split"] for row in told["rows"]] == ["testa", "testb"] * len(names)
    assert all(0 < row["f1"] <= 100 for row in told["rows"])
    assert list(told["settings"]["chosen on the last fifth of eng.train"]) == [*names[::2][:2], "mixture separate"]


# -- Gibbs


def test_rows_of_the_speed_of_gibbs(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gibbs_speed, "SPEED_SWEEPS", (2, 4))
    monkeypatch.setattr(gibbs_speed, "REPEATS", 1)
    report = gibbs_speed.gibbs_speed(data, quiet, n_jobs=1)
    names = ["stacked k=1", *(f"Gibbs {sweeps} {mode}" for mode in ("plain", "fast") for sweeps in (2, 4))]
    for dataset in ("slif", "webkb", "cora", "citeseer"):
        assert models(report, dataset) == names
    for row in report.rows[:-1]:
        assert row["split"] == "mean" and 0 <= row["accuracy"] <= 100 and row["milliseconds"] > 0
        assert ("p_value" in row) == (row["model"] != "stacked k=1") == ("speedup_2" not in row)
    last = report.rows[-1]
    assert (last["dataset"], last["model"], last["split"]) == ("all four", "stacked k=1", "mean")
    speeds = ["speedup_2", "fast_speedup_2", "speedup_4", "fast_speedup_4"]
    for name in speeds:
        found = [row[name] for row in report.rows[:-1] if name in row]
        assert len(found) == 4 and last[name] == pytest.approx(np.mean(found)) and min(found) > 0
    assert report.shown == ("accuracy", "milliseconds", "p_value", *speeds)
    assert json.loads(json.dumps(report.as_dict()))["settings"] == {
        "sweeps": [2, 4], "base": repr(maxent()), "threads": 1,
    }  # fmt: skip


def test_the_paper_s_figures_of_speed_have_their_places():
    assert set(gibbs_speed.SPEED_SWEEPS) == {50, 100}
    for place, printed in gibbs_speed.PAPER.items():
        assert place[1:] == ("stacked k=1", "mean")
        assert set(printed) == {f"speedup_{sweeps}" for sweeps in gibbs_speed.SPEED_SWEEPS}


@pytest.fixture
def short_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in {"LEVELS": 2, "SWEEPS": 4, "STARTS": 2}.items():
        monkeypatch.setattr(gibbs_convergence, name, number)


def test_figure_4(data: Path, tmp_path: Path, short_curves: None):
    out, picture = tmp_path / "rows.json", tmp_path / "figure.png"
    options = ["--data", str(data), "--json", str(out), "--figure", str(picture), "--jobs", "1"]
    result = CliRunner().invoke(app, ["reproduce", "gibbs-convergence", *options])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(PNG) and picture.stat().st_size > 5000
    report = json.loads(out.read_text())
    assert report["settings"] == {"levels": 2, "sweeps": 4, "starts": 2}
    for dataset in ("slif", "webkb"):
        for name in gibbs_convergence.NAMES:
            rows = [row for row in report["rows"] if (row["dataset"], row["model"]) == (dataset, name)]
            first, last = (0, 2) if name == "stacked" else (1, 4)
            assert [row["split"] for row in rows] == [f"iteration {i}" for i in range(first, last + 1)]
            assert all(0 <= row["accuracy"] <= 100 and row["spread"] >= 0 for row in rows)
            if name != "Gibbs from random labels":
                assert all(row["spread"] == 0 for row in rows), "one run has no spread"
    assert f"drew {picture}" in result.output


def test_curves_are_means_over_folds(data: Path, short_curves: None):
    problem = graphs.slif(data)._replace(splits=graphs.slif(data).splits[:2])
    found = gibbs_convergence.curves(Run(data, quiet, 1), problem)
    each = [gibbs_convergence.one_fold(split, problem.templates, 1) for split in problem.splits]
    shapes = {"stacked": (1, 3), "Gibbs from random labels": (2, 4), "Gibbs from the local model": (1, 4)}
    assert {name: table.shape for name, table in found.items()} == shapes
    for name in shapes:
        np.testing.assert_allclose(found[name], np.mean([one[name] for one in each], axis=0))
    split = problem.splits[0]
    local = kf.StackedNodes(maxent(), problem.templates, 0, n_jobs=1).fit(split.fit, train=split.train)
    alone = split.accuracy(local.predict_proba(split.target), local.classes_)
    assert each[0]["stacked"][0, 0] == pytest.approx(alone), "iteration 0 is the local model"


# -- the command


def test_every_experiment_has_a_module_that_runs():
    for place in reproduce.EXPERIMENTS.values():
        assert harness.about(harness.load(place)), "every experiment says what it is"
    assert set(reproduce.FIGURES) <= set(reproduce.EXPERIMENTS)


def test_what_cannot_be_reproduced_is_told(data: Path, tmp_path: Path):
    empty = tmp_path / "empty"
    empty.mkdir()
    wrong = {
        ("stacked-pubmed", "--data", str(data)): "no experiment 'stacked-pubmed'; there are: chain-conll",
        ("stacked-cora", "--data", str(tmp_path / "nowhere")): "no such data folder; pass --data DIR",
        ("stacked-cora", "--data", str(data), "--figure", "f.png"): "stacked-cora is a table, and draws no figure",
        ("gibbs-convergence", "--data", str(data), "--figure", str(tmp_path / "no" / "f.png")): "does not exist or",
        ("stacked-slif", "--data", str(empty)): "all.localmodel: no such file",
    }
    for arguments, message in wrong.items():
        result = CliRunner().invoke(app, ["reproduce", *arguments])
        assert result.exit_code != 0 and message in " ".join(result.output.split()), result.output


def test_without_matplotlib_the_figure_says_what_to_install(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(kf.KinfolkError, match=r"pip install 'kinfolk\[plots\]'"):
        gibbs_convergence.gibbs_convergence(data, quiet, n_jobs=1)


# -- the real data


@pytest.mark.data
def test_stacking_beats_the_local_model_on_cora(data_folder: Path):
    """One fold, where neighbours give nothing but predictions."""
    if not (data_folder / "nodes" / "cora_linqs" / "cora.content.gz").is_file():
        pytest.skip(f"no Cora files in {data_folder}; set KINFOLK_DATA")
    problem = graphs.PROBLEMS["cora"](data_folder)
    split = problem.splits[0]
    model = kf.StackedNodes(maxent(), problem.templates, known="crossfit", n_jobs=1)
    model.fit(split.fit, train=split.train)
    local, stacked = (split.accuracy(p, model.classes_) for p in model.predict_levels(split.target))
    assert stacked > local + 5
