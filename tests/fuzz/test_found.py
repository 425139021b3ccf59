"""What was found by forging model files, each with a right checksum: refused when it is loaded, in words."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forge import Forged
from models import net_files

import kinfolk as kf
from kinfolk.core.files import LIMIT_NAME
from kinfolk.errors import InputError, ModelFileError, SettingError, UntrustedError
from kinfolk.text.attributes import lower, may_take_long, word

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    net_files(folder)
    return folder


def forged(path: Path, change: Change) -> Path:
    """Another header or other arrays, beside the file."""
    found = Forged.of(path)
    change(found.body["header"], found.blocks)
    target = path.with_name("forged.kinfolk")
    target.write_bytes(found.bytes())
    return target


def told(setting: str, value: Any) -> Change:
    return lambda header, blocks: header["settings"].update({setting: value})


def put(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda header, blocks: blocks.update({f"array/{name}": change(blocks[f"array/{name}"])})


def poked(value: Any, at: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[at] = value
        return array

    return change


def template(spec: Any) -> Change:
    """In the place of the first template."""
    return lambda header, blocks: header["features"]["templates"].__setitem__(0, spec)


def both(*changes: Change) -> Change:
    return lambda header, blocks: [change(header, blocks) for change in changes]


FIT = "the parts of the model do not fit together"
LOWER = {"kind": "lower", "arguments": [], "of": {"column": "word"}}
FOUND: dict[str, tuple[str, Change, str]] = {
    "sweeps without end": ("dependency", told("sweeps", 10**9), "sweeps=.*from 1 to 100000"),
    "chains without end": ("dependency", told("chains", 10**9), "chains=.*from 1 to 100000"),
    "rounds without end": ("link", told("max_rounds", 10**9), "max_rounds=.*from 1 to 100000"),
    "orders without end": ("mixture-nodes", told("predict_orders", 10**12), "predict_orders=.*from 1 to 100000"),
    "a setting of another type": ("crf", told("l2", "much"), "l2"),
    "a conjunction of nothing": ("crf", template({"conjunction": []}), "of no attributes"),
    "an offset far away": ("crf", template({"conjunction": [[LOWER, 10**6]]}), "from -200 to 200"),
    "a bag without end": ("crf", template({"bag": LOWER, "first": -(10**9), "last": 10**9}), "from -200 to 200"),
    "runs without end": ("crf", template({"ngrams": LOWER, "first": 1, "last": 10**9}), "lengths from 1 to 100"),
    "words that no table has": ("crf", template({"conjunction": [[{"column": "none"}, 0]]}), FIT),
    "a key below 0": ("crf", put("node.features.keys", poked(-1)), FIT),
    "a key of no word": ("crf", put("node.features.keys", poked(2**62)), FIT),
    "keys of another type": ("crf", put("node.features.keys", lambda keys: keys.astype(np.float64)), FIT),
    "sizes of other tables": ("crf", put("node.features.sizes", poked(10**9)), FIT),
    "sizes below 0": ("crf", put("node.features.sizes", lambda sizes: np.append(sizes[1:], -5)), FIT),
    "weights of another type": ("crf", put("weights.node", lambda w: w.astype(np.float64)), "asks for float32"),
    "weights of whole numbers": ("maxent", put("weights.start", lambda w: w.astype(np.int64)), "asks for float32"),
    "fewer weights than features": (
        "crf",
        both(lambda header, _: header.update(extra=-100), put("weights.node", lambda w: w[:-100])),
        FIT,
    ),
    "fewer weights of pairs than features": (
        "mixture-tokens",
        both(
            lambda header, _: header["mixture"]["parents"][0].update(pair_features=-1),
            put("mixture.0.rows", lambda rows: rows[:0]),
        ),
        FIT,
    ),
    "rows below 0": ("mixture-tokens", put("mixture.0.table.0.rows", poked(-1)), FIT),
    "rows beyond the table": ("mixture-nodes", put("mixture.0.table.0.rows", poked(10**9, -1)), FIT),
    "a flag that is none": (
        "mixture-nodes",
        lambda header, _: header["mixture"]["parents"][0].update(everybody_starts=7),
        FIT,
    ),
    "columns without end": (
        "mixture-nodes",
        lambda header, _: header.update(columns=10**12),
        f"would take [0-9,]* bytes.*{LIMIT_NAME}",
    ),
    "names that are lists": (
        "stacked-nb", lambda header, _: header["memory"].update(relations=[["cites"]]), FIT,
    ),
    "neighbours without end": (
        "stacked-templates",
        lambda header, _: header["stacked"]["templates"][0].update(template="Concat", slots=10**12),
        "slots",
    ),
    "a flag of a comparison that is a list": (
        "linker",
        lambda header, _: header["linker"]["features"][0].update(normalise=[1]),
        "normalise must be one of True, False",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_a_forged_file_is_refused_in_words(name: str, net: Path):
    model, change, message = FOUND[name]
    path = forged(net / f"{model}.kinfolk", change)
    with pytest.raises(ModelFileError, match=f"forged.kinfolk: .*{message}"):
        kf.load_model(path)


# -- patterns that may take for ever ------------------------------------------------------------------

QUICK = [r"^\d+$", r"[A-Z]\w*-\d+", r"^(?:[A-Z]\.)+$", r"(foo|bar)$", r"^\d{4}-\d{2}$", r"(?:ab)*c?", r"(?:ab|cd)+"]
SLOW = [r"(a+)+$", r"(a|aa)+$", r"(?:\w+-)*\d", r"(.*)*x", r"(\w)\1+", "a*" * 30 + "b", r"(?:a?){30}a{30}", "x" * 2000]


@pytest.mark.parametrize("pattern", QUICK)
def test_patterns_that_are_known_to_end(pattern: str):
    assert not may_take_long(pattern)


@pytest.mark.parametrize("pattern", SLOW)
def test_other_patterns_of_a_file_have_to_be_trusted_by_name(pattern: str, net: Path):
    assert may_take_long(pattern)
    spec = {"conjunction": [[{"kind": "matches", "arguments": ["m", pattern], "of": {"column": "word"}}, 0]]}
    path = forged(net / "crf.kinfolk", template(spec))
    with pytest.raises(UntrustedError, match=r"forged.kinfolk: words are matched by a pattern that may take for ever"):
        kf.load_model(path)


def test_a_pattern_of_ones_own_is_loaded_by_name(tmp_path: Path):
    corpus, pattern = kf.generate_newswire(3), r"(?:\w+-)*\w+"
    templates = [word[0], kf.text.attributes.matches("joined", pattern)]
    model = kf.MaxEnt(templates=templates, n_jobs=1, tolerance=0.1).fit(corpus)
    model.save(tmp_path / "own.kinfolk")
    with pytest.raises(UntrustedError, match=r"trusted=\["):
        kf.load_model(tmp_path / "own.kinfolk")
    again = kf.load_model(tmp_path / "own.kinfolk", trusted=[pattern])
    assert again.predict(corpus) == model.predict(corpus)


def test_templates_have_the_same_limits_when_they_are_made():
    with pytest.raises(SettingError, match="from -200 to 200"):
        lower[1000]
    with pytest.raises(SettingError, match="from -200 to 200"):
        kf.text.templates.bag(lower, -1000, 1000)
    with pytest.raises(SettingError, match="from 1 to 100"):
        kf.text.templates.ngrams(lower, 1, 1000)


# -- what skops packed ----------------------------------------------------------------------------------


def repacked(change: Callable[[dict[str, bytes], Any], None], packing: int = zipfile.ZIP_STORED) -> Change:
    """Other members in the first base, or another schema."""

    def apply(header: dict[str, Any], blocks: dict[str, np.ndarray]) -> None:
        name = next(key for key in blocks if key.endswith(".skops"))
        with zipfile.ZipFile(io.BytesIO(blocks[name].tobytes())) as archive:
            parts = {one: archive.read(one) for one in archive.namelist()}
        schema = json.loads(parts["schema.json"])
        change(parts, schema)
        parts["schema.json"] = json.dumps(schema).encode()
        with zipfile.ZipFile(out := io.BytesIO(), "w", packing) as archive:
            for one, content in parts.items():
                archive.writestr(one, content)
        blocks[name] = np.frombuffer(out.getvalue(), np.uint8)

    return apply


def first_array(content: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes], Any], None]:
    def change(parts: dict[str, bytes], schema: Any) -> None:
        name = next(one for one in parts if one.endswith(".npy"))
        parts[name] = content(parts[name])

    return change


def test_weights_of_a_pool_that_sum_up_to_none_are_refused(tmp_path: Path):
    """Scores of two classes were infinite, and their difference no number."""
    graph = kf.generate_citations(60, seed=1)
    kf.StackedNodes(effort="fast", n_jobs=1).fit(graph).save(tmp_path / "pool.kinfolk")
    kept = [
        name for name in Forged.of(tmp_path / "pool.kinfolk").blocks if re.search(r"pool\.(\d+\.weights|centre)$", name)
    ]
    assert len(kept) > 1
    for name in kept:
        path = forged(tmp_path / "pool.kinfolk", put(name.removeprefix("array/"), poked(1e308)))
        with pytest.raises(ModelFileError, match=FIT):
            kf.load_model(path)


def promising(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)


def with_nan(parts: dict[str, bytes], schema: Any) -> None:
    file = schema["content"]["content"]["coef_"]["file"]
    numbers = np.load(io.BytesIO(parts[file]))
    np.save(out := io.BytesIO(), np.full_like(numbers, np.nan))
    parts[file] = out.getvalue()


def with_threads(parts: dict[str, bytes], schema: Any) -> None:
    schema["content"]["content"]["n_jobs"] = {
        "__class__": "int", "__module__": "builtins", "__loader__": "JsonNode", "content": "1000000000",
        "is_json": True,
    }  # fmt: skip


PACKED: dict[str, tuple[str, Change, str]] = {
    "an array that promises terabytes": (
        "stacked-nb", repacked(first_array(lambda _: promising((10**12,)))), "larger than its bytes",
    ),
    "strings that promise petabytes": (
        "stacked-nb", repacked(first_array(lambda _: promising((10**8,), "<U99999999"))), "larger than its bytes",
    ),
    "objects": ("stacked-nb", repacked(first_array(lambda _: promising((8,), "|O"))), "an array is none"),
    "a packed member": (
        "stacked-nb", repacked(first_array(lambda _: bytes(10**7)), zipfile.ZIP_DEFLATED), "more than it holds",
    ),
    "NaN in coefficients": ("stacked-logistic", repacked(with_nan), "coef_ of LogisticRegression has NaN"),
    "threads without number": ("stacked-logistic", repacked(with_threads), "threads without number"),
    "no zip at all": ("stacked-nb", put("level.0.skops", lambda data: data[:100]), "the base cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_a_forged_base_is_refused_before_memory_is_taken(name: str, net: Path):
    model, change, message = PACKED[name]
    with pytest.raises(ModelFileError, match=f"forged.kinfolk: .*{message}"):
        kf.load_model(forged(net / f"{model}.kinfolk", change))


def test_a_base_whose_answers_are_none_says_so(net: Path):
    """The parts are there, and each is as it should be; only together they are not."""

    def change(parts: dict[str, bytes], schema: Any) -> None:
        file = schema["content"]["content"]["theta_"]["file"]
        np.save(out := io.BytesIO(), np.load(io.BytesIO(parts[file]))[:, :-1])
        parts[file] = out.getvalue()

    model = kf.load_model(forged(net / "stacked-nb.kinfolk", repacked(change)))
    parts = np.load(net / "graph.npz")
    relations = {name[2:]: parts[name] for name in parts.files if name.startswith("r_")}
    graph = kf.Graph(parts["features"], parts["labels"], relations)
    with pytest.raises(
        InputError, match=r"the base, GaussianNB, cannot answer \(ValueError: .*train and save it again"
    ):
        model.predict(graph)


def test_weights_that_are_too_few_never_reach_a_kernel():
    from scipy import sparse

    from kinfolk.learning.softmax import linear_scores
    from kinfolk.learning.sparse import SparseRows

    with pytest.raises(InputError, match="the weights are for 3 features; the rows have 5"):
        SparseRows(sparse.csr_array(np.eye(5))).scores(np.ones((3, 2), np.float32))
    with pytest.raises(InputError, match="the weights are for 3 columns; the rows have 5"):
        linear_scores([np.eye(5)], np.ones((3, 2)), np.zeros(2))


@pytest.mark.parametrize("base", [kf.MixtureTagger, kf.SkipChainCRF])
def test_levels_of_any_tagger_are_loaded_with_what_they_receive(base: Any, tmp_path: Path):
    corpus = kf.generate_newswire(3)
    model = kf.StackedTagger(base(tolerance=0.9, n_jobs=1), depth=1, folds=2, n_jobs=1).fit(corpus)
    model.save(tmp_path / "m.kinfolk")
    assert kf.load_model(tmp_path / "m.kinfolk").predict(corpus) == model.predict(corpus)
    with pytest.raises(ModelFileError, match=f"{FIT}|the model asks for"):
        kf.load_model(forged(tmp_path / "m.kinfolk", lambda header, _: header["stacked"]["levels"][1].update(extra=0)))
