"""A base for nodes: any scikit-learn classifier, asked for probabilities in one order of classes.

Labels go in as the numbers of the classes. What comes back has a column for every class, also for those a fold lacks.
"""

from __future__ import annotations

import inspect
import io
import json
import logging
import math
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax

from kinfolk.collective.aggregate import SUM, aggregate, padded, run_of, side_by_side
from kinfolk.core.data import Classes, finite
from kinfolk.core.files import most_unpacked
from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.core.threads import dense, run_chunks
from kinfolk.errors import InputError, KinfolkError, ModelFileError, SettingError, UntrustedError

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
BLOCK_ROWS = 1 << 15  # rows that are put together and predicted at a time
DENSE_BLOCK = 1 << 27  # bytes of them where they have to be filled in
# Steps of a pipeline that make few dense columns of many sparse ones.
FILL_IN = ("TruncatedSVD", "PCA", "NMF", "LatentDirichletAllocation", "GaussianRandomProjection", "Nystroem")
Aggregates = Callable[[slice], Array]  # a run of rows to the aggregates of their neighbours


def check_base(base: Any) -> None:
    """Raise unless it is a classifier, not yet fitted or not."""
    if isinstance(base, type) or not (hasattr(base, "fit") and hasattr(base, "predict")):
        remedy = f"it is a class: call it, as in {base.__name__}()" if isinstance(base, type) else ""
        raise SettingError("base", base, "a scikit-learn classifier, such as LogisticRegression()", remedy)
    from sklearn.base import is_classifier

    if hasattr(base, "__sklearn_tags__") and not is_classifier(base):
        raise SettingError("base", base, "a classifier, such as LogisticRegression()")


def predicts_by(base: Any) -> str:
    """By what a base gives its predictions: "predict_proba", "decision_function" or "predict"."""
    return next((way for way in ("predict_proba", "decision_function") if hasattr(base, way)), "predict")


def warn_of_fallback(base: Any) -> None:
    """Of a base without probabilities."""
    way = predicts_by(base)
    if way != "predict_proba":
        instead = {"decision_function": "its decision values, squashed to sum to 1", "predict": "its labels alone"}[way]
        log.warning("%s gives no probabilities; %s are used instead", type(base).__name__, instead)


def takes_sparse(base: Any) -> bool:
    """Whether it can be given sparse rows. A pipeline can if its steps can, up to one that makes dense rows of them."""
    from sklearn.utils import get_tags

    steps = [step for _, step in getattr(base, "steps", ()) if hasattr(step, "fit")]
    if steps:
        first = next((i + 1 for i, step in enumerate(steps) if type(step).__name__ in FILL_IN), len(steps))
        return all(map(takes_sparse, steps[:first]))
    return not hasattr(base, "__sklearn_tags__") or bool(get_tags(base).input_tags.sparse)


def takes_missing(base: Any) -> bool:
    """Whether it can be given NaN: what scikit-learn's tags say; a pipeline can if its first step can."""
    from sklearn.utils import get_tags

    steps = [step for _, step in getattr(base, "steps", ()) if hasattr(step, "fit")]
    if steps:
        return takes_missing(steps[0])
    return hasattr(base, "__sklearn_tags__") and bool(get_tags(base).input_tags.allow_nan)


class Learner:
    """A clone of `base`, trained on codes that need not have every class. Weights of classes that the base has by label
    are given to it by code."""

    from_file = False

    def __init__(self, base: Any, classes: Classes) -> None:
        from sklearn.base import clone

        self.n_labels = len(classes)
        self.estimator: Any = clone(base)
        self._by_code(classes)
        self.columns: Array = np.empty(0, np.int64)  # class numbers the estimator knows

    @classmethod
    def restored(cls, estimator: Any, columns: Array, n_labels: int) -> Learner:
        """One that was trained before; without an estimator it knows a single class."""
        learner = cls.__new__(cls)
        learner.estimator, learner.columns, learner.n_labels, learner.from_file = estimator, columns, n_labels, True
        return learner

    def _by_code(self, classes: Classes) -> None:
        """Numbers are codes where labels are strings, else labels."""
        code = {label: i for i, label in enumerate(classes)}
        codes = range(len(classes)) if classes.type == "str" else ()
        settings = self.estimator.get_params() if hasattr(self.estimator, "get_params") else {}
        for key, value in settings.items():
            if key.rpartition("__")[2] == "class_weight" and isinstance(value, Mapping):
                strange = next((label for label in value if label not in code and label not in codes), None)
                if strange is not None:
                    raise SettingError.saying(
                        f"class_weight names {strange!r}, which is no label; there are: {', '.join(classes.names)}"
                    )
                self.estimator.set_params(**{key: {code.get(label, label): weight for label, weight in value.items()}})

    def fit(self, rows: Any, codes: Array, weights: Array | None) -> Learner:
        present = np.unique(codes)
        if len(present) < 2:  # a fold may lack all classes but one; most classifiers refuse that
            self.estimator, self.columns = None, present.astype(np.int64)
            return self
        if not rows.shape[1]:  # nothing to go by but how many there are of each class
            from sklearn.dummy import DummyClassifier

            self.estimator = DummyClassifier(strategy="prior")
        self._train(rows, codes, weights)
        self.columns = np.asarray(getattr(self.estimator, "classes_", present), np.int64)
        return self

    def _train(self, rows: Any, targets: Array, weights: Array | None) -> None:
        """What the estimator refuses to learn from is told as an error of kinfolk's own."""
        try:
            self.estimator.fit(self._taken(rows), targets, **weight_argument(self.estimator, weights))
        except KinfolkError:
            raise
        except (ValueError, ArithmeticError) as error:
            raise InputError(
                f"the base {type(self.estimator).__name__} refuses: {str(error).rstrip('.')}. Look for huge or missing "
                "features and weights, or choose other settings or another base"
            ) from error

    @cached_property
    def fills_in(self) -> bool:
        """Whether sparse rows have to be made dense for it."""
        return self.estimator is not None and not takes_sparse(self.estimator)

    def _taken(self, rows: Any) -> Any:
        if not (sparse.issparse(rows) and self.fills_in):
            return rows
        name = type(self.estimator).__name__
        what = f"{name} takes no sparse rows, and {rows.shape[0]:,} of them with {rows.shape[1]:,} columns take"
        return dense(
            rows, rows.dtype, what,
            f"take fewer columns, as by make_pipeline(TruncatedSVD(200), {name}(...)), fewer rows to train on, or a "
            "base that takes sparse rows, such as LogisticRegression or RandomForestClassifier",
        )  # fmt: skip

    @cached_property
    def softmax(self) -> tuple[Array, Array] | None:
        """(F, L) and (L,): of a logistic regression the scores whose softmax it gives, which asks for none of the
        checks that scikit-learn makes at every call; a class it never saw has none. None for any other base."""
        from sklearn.linear_model import LogisticRegression

        estimator = self.estimator
        if type(estimator) is not LogisticRegression or estimator.coef_.shape[0] not in (1, len(self.columns)):
            return None
        weights = np.zeros((estimator.coef_.shape[1], self.n_labels), estimator.coef_.dtype)
        bias = np.full(self.n_labels, -np.inf)
        bias[self.columns] = 0.0
        known = self.columns if len(estimator.coef_) > 1 else self.columns[1:]
        weights[:, known] = estimator.coef_.T
        bias[known] = estimator.intercept_
        return padded(weights), bias

    def log_linear(self, table: Any, index: Array) -> Array:
        """(m, L) for rows `index` of a table, where the base is a logistic regression; no row is copied."""
        assert self.softmax is not None
        weights, bias = self.softmax
        if table.shape[1] != len(weights):
            raise InputError(f"the base was trained on {len(weights)} columns; got {table.shape[1]}")
        scores = np.empty((len(index), self.n_labels))
        with np.errstate(over="ignore", invalid="ignore"):  # who asks looks whether probabilities are numbers
            if sparse.issparse(table) and table.dtype.kind == "f":
                aggregate(SUM, table, weights, index, scores, 1)
            else:
                scores[:] = run_of(table, index) @ weights
            return np.asarray(softmax(scores + bias, axis=1))

    def proba(self, rows: Any) -> Array:
        """(m, L), each row summing to 1."""
        try:
            return self._proba(rows)
        except (KinfolkError, MemoryError):
            raise
        except Exception as error:
            if self.from_file:  # parts of it may not fit together, whatever comes of that
                self._fail(f"{type(error).__name__}: {error}", error)
            if not isinstance(error, ValueError | ArithmeticError):
                raise
            raise InputError(
                f"the base {type(self.estimator).__name__} refuses: {str(error).rstrip('.')}. Look for huge or missing "
                "features and weights, or choose other settings or another base"
            ) from error

    def _proba(self, rows: Any) -> Array:
        table = np.zeros((rows.shape[0], self.n_labels))
        if not rows.shape[0]:
            return table
        if self.estimator is None:
            table[:, self.columns] = 1.0
            return table
        if self.softmax is not None:
            return self.log_linear(rows, np.arange(rows.shape[0]))
        way = predicts_by(self.estimator)
        rows = self._taken(rows)
        said = getattr(self.estimator, way)(rows)
        if way == "decision_function" and said.ndim == 2 and said.shape[1] != len(self.columns):
            way, said = "predict", self.estimator.predict(rows)  # of pairs of classes, say: no score of its own each
        if way == "predict":
            if self.from_file and not np.isin(said, self.columns).all():
                self._fail("classes that it does not know")
            table[np.arange(len(table)), said] = 1.0
            return table
        if way == "decision_function":
            said = softmax(said, axis=1) if said.ndim == 2 else np.stack([expit(-said), expit(said)], axis=1)
        if self.from_file and not _are_probabilities(said, (len(table), len(self.columns))):
            self._fail("no probabilities")
        table[:, self.columns] = said
        return table

    def _fail(self, what: str, error: Exception | None = None) -> NoReturn:
        """Of a base that came from a file."""
        name = type(self.estimator).__name__
        remedy = "the model file was altered, or made for another version of scikit-learn: train and save it again"
        raise InputError(f"the base, {name}, cannot answer ({what[:300]}); {remedy}") from error


def _are_probabilities(said: Any, shape: tuple[int, int]) -> bool:
    """Whether rows are numbers from 0 to 1 that add up to 1; what is NaN is told elsewhere."""
    if said.shape != shape:
        return False
    numbers = np.nan_to_num(said, nan=0.0)
    whole = (np.abs(numbers.sum(axis=1) - 1) < 1e-3) | np.isnan(said).any(axis=1)
    return bool((numbers >= -1e-6).all() and whole.all())


BINS = 255  # of scikit-learn's boosted trees


def in_few_values(rows: Any) -> Any:
    """Dense rows whose columns have no more values than boosted trees have bins: each the nearest of so many quantiles.

    Given weights, scikit-learn finds the bounds of bins in columns of more values one weighted percentile at a time,
    which takes ten times as long as all the trees. In columns of few it cuts halfway between two values, and so between
    the same rows whether rows to predict are rounded or not.
    """
    if sparse.issparse(rows):
        return rows
    found = np.array(rows)
    for column in found.T:
        there = ~np.isnan(column)  # what is missing stays so
        ordered = np.sort(column[there])
        if (ordered[1:] != ordered[:-1]).sum() < BINS:
            continue  # few already, and rare ones among them are kept
        few = np.unique(ordered[((np.arange(BINS) + 0.5) / BINS * len(ordered)).astype(np.int64)])
        column[there] = few[np.searchsorted((few[1:] + few[:-1]) / 2, column[there])]
    return found


def weight_argument(estimator: Any, weights: Array | None) -> dict[str, Any]:
    """sample_weight under the name the estimator takes it: a pipeline by that of its last step."""
    if weights is None:
        return {}
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)
    last = steps[-1][1] if steps else estimator
    if not has_fit_parameter(last, "sample_weight"):
        raise SettingError.saying(
            f"{type(last).__name__} takes no sample_weight; choose another base, or leave weights out"
        )
    return {f"{steps[-1][0]}__sample_weight" if steps else "sample_weight": weights}


def predict_in_blocks(learner: Learner, table: Any, index: Array, aggregates: Aggregates | None, n_jobs: int) -> Array:
    """(m, L) for rows `index` of a table, with the `aggregates` of each run of them beside them. Put together a
    block at a time, in threads, so a large graph is never copied whole, nor a sparse table filled in. Threads that the
    base would start of its own are one in each of these: there is one kind of threads at a time."""
    from threadpoolctl import ThreadpoolController

    out = np.empty((len(index), learner.n_labels))
    size = BLOCK_ROWS
    if sparse.issparse(table) and learner.fills_in:
        size = int(np.clip(DENSE_BLOCK // (8 * max(1, table.shape[1])), 1, BLOCK_ROWS))

    def run(block: int) -> None:
        span = slice(block * size, (block + 1) * size)
        if aggregates is None and learner.estimator is not None and learner.softmax is not None:
            out[span] = learner.log_linear(table, index[span])
        else:
            out[span] = learner.proba(
                side_by_side(table, index[span], None if aggregates is None else aggregates(span))
            )

    n_blocks = -(-len(index) // size)
    if n_jobs == 1 or n_blocks < 2:
        run_chunks(run, n_blocks, 1)
    else:
        pools = ThreadpoolController()

        def alone(block: int) -> None:
            with pools.limit(limits=1, user_api="openmp"):  # holds for the thread that asks, so each asks
                run(block)

        with pools.limit(limits=1, user_api="blas"):  # holds for all of them
            run_chunks(alone, n_blocks, n_jobs)
    return finite(out, type(learner.estimator).__name__)


def one_table(parts: list[Any]) -> Any:
    """Tables side by side: CSR if any is, else dense."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
    return np.concatenate(parts, axis=1)


def check_enough(classes: Any) -> None:
    """There have to be two classes to tell apart."""
    if len(classes) < 2:
        raise InputError(
            f"all training labels are {classes.names[0]!r}: there is nothing to tell apart. Give labels of two classes"
        )


# -----------------------------------------------------------------------------------------------------
# Estimators from a model file: only known types are built, and they are looked over before they are asked anything.
#
# skops runs no code of the file, yet scikit-learn's compiled code follows the nodes of a tree or the numbers of support
# vectors wherever they point: a forged file could have it read and write memory not its own. So a type is taken without
# being trusted by name only if scikit-learn asks NumPy and SciPy alone for its answers, which look at every index
# themselves (NUMPY_ALONE), or if everything that compiled code follows is checked here (CHECKED).

_TREE = "sklearn.tree._tree.Tree"
_HIST = "sklearn.ensemble._hist_gradient_boosting"
NUMPY_ALONE = {
    f"{module}.{name}"
    for module, names in {
        "sklearn.compose._column_transformer": "ColumnTransformer",
        "sklearn.compose._target": "TransformedTargetRegressor",
        "sklearn.decomposition._pca": "PCA",
        "sklearn.decomposition._truncated_svd": "TruncatedSVD",
        "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
        "sklearn.dummy": "DummyClassifier DummyRegressor",
        "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
        "sklearn.ensemble._forest": (  # asks trees, which are checked
            "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor"
        ),
        "sklearn.ensemble._stacking": "StackingClassifier StackingRegressor",
        "sklearn.ensemble._voting": "VotingClassifier VotingRegressor",
        "sklearn.ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
        "sklearn.feature_extraction.text": "TfidfTransformer",
        "sklearn.feature_selection._from_model": "SelectFromModel",
        "sklearn.feature_selection._univariate_selection": "SelectKBest SelectPercentile chi2 f_classif",
        "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
        "sklearn.impute._base": "SimpleImputer",
        "sklearn.linear_model._base": "LinearRegression",
        "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
        "sklearn.linear_model._coordinate_descent": "ElasticNet ElasticNetCV Lasso LassoCV",
        "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
        "sklearn.linear_model._huber": "HuberRegressor",
        "sklearn.linear_model._passive_aggressive": "PassiveAggressiveClassifier",
        "sklearn.linear_model._perceptron": "Perceptron",
        "sklearn.linear_model._ridge": "Ridge RidgeCV RidgeClassifier RidgeClassifierCV",
        "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
        "sklearn.multiclass": "OneVsOneClassifier OneVsRestClassifier",
        "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
        "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
        "sklearn.pipeline": "FeatureUnion Pipeline",
        "sklearn.preprocessing._data": (
            "Binarizer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer "
            "RobustScaler StandardScaler"
        ),
        "sklearn.preprocessing._function_transformer": "FunctionTransformer",
        "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
        "sklearn.svm._classes": "LinearSVC LinearSVR",
        # what those hold
        "numpy": "dtype",
        "scipy.sparse._csr": "csr_array csr_matrix",
        "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
        "sklearn._loss.loss": (
            "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss HalfPoissonLoss "
            "HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity PinballLoss"
        ),
        "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
        "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
        "sklearn.utils._bunch": "Bunch",
    }.items()
    for name in names.split()
}
MOST_PARTS = 1_000_000
NO = object()  # an attribute that is not there
STATE_WORDS = 624  # of a Mersenne Twister


def built(data: bytes, trusted: Collection[str]) -> Any:
    """The estimator that skops wrote. Types beyond those above have to be trusted by name, and are not looked over."""
    try:
        return _built(data, trusted)
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:  # what skops and NumPy raise of a schema or an array that is none
        raise ModelFileError(
            f"the base cannot be read ({type(error).__name__}: {str(error)[:300]}); save the model again"
        ) from error


def _built(data: bytes, trusted: Collection[str]) -> Any:
    root = _opened(data)
    unknown = sorted(_unknown(root) - {*trusted})
    if unknown:
        raise UntrustedError(f"the base holds types that are not known to be safe: {', '.join(unknown)}", unknown)
    for check in (_check_scalar, _check_tree, _check_generator):
        for node in _nodes(root):
            check(node)
    estimator = root.construct()
    check_parts(estimator, trusted)
    return estimator


def types_to_trust(data: bytes) -> list[str]:
    """Types in what skops wrote that `built` takes only if they are named."""
    found: list[str] = []
    while True:
        try:
            built(data, found)
            return sorted(found)
        except UntrustedError as error:
            found += error.types


# -- before anything is built: the nodes that skops makes of its file ---------------------------------


def _opened(data: bytes) -> Any:
    """The root of the nodes. What they `construct` they keep, so what is looked at here is what is built."""
    from skops.io._audit import get_tree
    from skops.io._utils import LoadContext

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = _checked_sizes(archive, len(data))
        schema = json.loads(archive.read("schema.json"))
        _require(_asked_for(schema, sizes) <= most_unpacked(), "the base names an array too many times")
        return get_tree(schema, LoadContext(src=archive, protocol=int(schema["protocol"])), trusted=None)


def _checked_sizes(archive: zipfile.ZipFile, size: int) -> dict[str, int]:
    """Bytes of the members. They are stored as they are, and arrays are as large as they say: what is promised is there
    before memory is taken for it."""
    members = archive.infolist()
    stored = all(one.compress_type == zipfile.ZIP_STORED for one in members)
    _require(stored and sum(one.file_size for one in members) <= size, "the base promises more than it holds")
    for one in members:
        if one.filename.endswith(".npy"):
            _check_promise(archive, one)
        elif one.filename.endswith(".npz"):  # a sparse matrix, whose parts are packed
            with zipfile.ZipFile(io.BytesIO(archive.read(one))) as inner:
                parts = inner.infolist()
                _require(sum(part.file_size for part in parts) <= most_unpacked(), "a matrix is too large")
                for part in parts:
                    _check_promise(inner, part)
    return {one.filename: one.file_size for one in members}


def _check_promise(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """The array in a file has the bytes that its shape and type ask for, and no objects."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(member) as file:
        shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
        left = member.file_size - file.tell()
    _require(not dtype.hasobject and min(shape, default=0) >= 0, "an array is none")
    _require(dtype.itemsize > 0 or math.prod(shape) <= left, "an array is larger than its bytes")
    _require(math.prod(shape) * dtype.itemsize == left, "an array is larger than its bytes")


def _asked_for(schema: Any, sizes: Mapping[str, int]) -> int:
    """Bytes that nodes name, those named twice counted twice."""
    total, waiting = 0, [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            name = one.get("file")
            total += sizes.get(name, 0) if isinstance(name, str) else 0
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return total


def _nodes(root: Any) -> Iterator[Any]:
    def inside(node: Any) -> Iterator[Any]:
        for child in node.children.values():
            found = child if isinstance(child, list) else child.values() if isinstance(child, dict) else [child]
            yield from (one for one in found if hasattr(one, "children"))

    return _reached(root, inside)


def _reached(first: Any, inside: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """What can be reached by `inside`, the first included, each once."""
    waiting, seen = [first], set()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            _require(len(seen) < MOST_PARTS, "the base has too many parts")
            yield one
            waiting += inside(one)


def _unknown(root: Any) -> set[str]:
    """skops trusts every estimator of scikit-learn, and we do not."""
    objects = {_type_of(node) for node in _nodes(root) if _loader(node) == "ObjectNode"}
    return ({*root.get_unsafe_set()} | objects) - NUMPY_ALONE - CHECKED.keys()


def _type_of(node: Any) -> str:
    return f"{node.module_name}.{node.class_name}"


def _loader(node: Any) -> str:
    return type(node).__name__


def _check_scalar(node: Any) -> None:
    """NumPy's scalars are made of arrays; of an array of records that ends the process."""
    content = node.children.get("content")
    if _loader(node) == "NdArrayNode" and _type_of(node) != "numpy.ndarray" and isinstance(content, io.BytesIO):
        array = np.load(io.BytesIO(content.getvalue()), allow_pickle=False)
        _require(array.ndim == 0 and array.dtype.kind in "biufcUS", "a number is an array")


def _check_generator(node: Any) -> None:
    """The words of a random state to be mixed with each other."""
    if _loader(node) == "RandomGeneratorNode" and "seed_seq_state" in node.children:
        pool = node.children["seed_seq_state"].construct().get("pool_size", 0)
        _require(type(pool) is int and pool <= STATE_WORDS, "a random state is none")


def _check_tree(node: Any) -> None:
    """Built from (features, classes by output, outputs) and a state, which it copies as if they were right."""
    if _type_of(node) != _TREE or _loader(node) == "TypeNode":  # that is the class, which every tree names
        return
    _require(_loader(node) == "TreeNode", "a tree is none")
    args, state = node.children["args"], node.children["attrs"]
    _require(_loader(args) == "TupleNode" and _loader(state) == "DictNode", "a tree is none")
    parts = [*args.children["content"], *state.children["content"].values()]
    _require({_loader(part) for part in parts} <= {"JsonNode", "NdArrayNode"}, "a tree is none")
    n_features, n_classes, n_outputs = args.construct()
    parts = state.construct()
    nodes, values, count, depth = (parts[name] for name in ("nodes", "values", "node_count", "max_depth"))
    _require(all(type(number) is int for number in (n_features, n_outputs, count, depth)), "a tree is none")
    _require(all(type(array) is np.ndarray for array in (n_classes, nodes, values)), "a tree is none")
    _require(n_classes.dtype.kind == "i" and n_classes.shape == (n_outputs,) and n_outputs >= 1, "a tree is none")
    _require((n_classes >= 1).all() and nodes.shape == (count,) and count >= 1, "a tree is empty")
    _require(values.shape == (count, n_outputs, n_classes.max()), "a tree has values for other nodes")
    _require(values.dtype == np.float64 and np.isfinite(values).all(), "a tree has values that are no numbers")
    left, right = (nodes[name].astype(np.int64) for name in ("left_child", "right_child"))
    inner = np.flatnonzero(left != -1)
    _check_children(left, right, inner, count)
    _require(_below(nodes["feature"][inner], n_features), "a tree asks for a feature that is not there")
    _require(_depth(left, right) <= depth, "a tree is deeper than it says")


def _check_children(left: Any, right: Any, inner: Any, count: int) -> None:
    """Every node but the first is the child of one before it, so that every way down ends."""
    children = np.concatenate([left[inner], right[inner]])
    after = (children > np.concatenate([inner, inner])).all()
    _require(bool(after) and np.array_equal(np.sort(children), np.arange(1, count)), "a tree points outside itself")


def _depth(left: Any, right: Any) -> int:
    level, depth = np.array([0]), 0
    while len(level := level[left[level] != -1]):
        level, depth = np.concatenate([left[level], right[level]]), depth + 1
    return depth


# -- after it is built, before it is asked ------------------------------------------------------------


def check_parts(estimator: Any, trusted: Collection[str] = ()) -> None:
    """Raise a ModelFileError if a part points outside itself, or the parts are not about the same things."""
    for part in _parts(estimator):
        name = _name_of(part)
        if name in trusted:
            continue
        if name.startswith("sklearn.") and hasattr(part, "__dict__"):
            # Methods, properties and constants of a class: an object of its own by that name would stand in for them.
            own = next((key for key in vars(part) if inspect.getattr_static(type(part), key, NO) is not NO), None)
            _require(own is None, f"{type(part).__name__} has another {own}")
            _check_numbers(part)
        if isinstance(part, np.ndarray):
            _require(part.dtype.kind in "biufcUSO", "an array of records")
        elif sparse.issparse(part):
            _check_matrix(part)
        elif name in CHECKED:
            learned, check = CHECKED[name]
            if learned is None or hasattr(part, learned):
                check(part)


MOST_JOBS = 1024
# What answers are made of; other attributes may hold NaN, as the statistics of a column without values do.
FINITE = frozenset(
    "coef_ intercept_ coefs_ intercepts_ theta_ components_ class_prior_ support_vectors_ _dual_coef_ _intercept_ "
    "_probA _probB _fit_X estimator_weights_".split()
)


def _check_numbers(part: Any) -> None:
    """Numbers that answers are made of are finite, and no more threads are asked for than there may be."""
    jobs = vars(part).get("n_jobs")
    _require(jobs is None or (isinstance(jobs, int) and abs(jobs) <= MOST_JOBS), "threads without number")
    for name in FINITE & vars(part).keys():
        found = vars(part)[name]
        for one in found if isinstance(found, list | tuple) else [found]:
            numbers = one.data if sparse.issparse(one) else one
            if isinstance(numbers, np.ndarray) and numbers.dtype.kind == "f":
                _require(np.isfinite(numbers).all(), f"{name} of {type(part).__name__} has NaN or infinite values")


def _parts(whole: Any) -> Iterator[Any]:
    """Everything an object holds, itself first, each once; but the records of boosted trees, checked with these."""
    plain = str | bytes | int | float | bool | None

    def inside(part: Any) -> list[Any]:
        found: Iterable[Any] = ()
        if isinstance(part, dict):
            found = [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            found = part
        elif isinstance(part, np.ndarray):
            found = part.ravel().tolist() if part.dtype == object else ()
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            records = "nodes" if type(part).__name__ == "TreePredictor" else None
            found = [one for key, one in vars(part).items() if key != records]
        return [one for one in found if not isinstance(one, plain)]

    return _reached(whole, inside)


def _check_matrix(matrix: Any) -> None:
    try:
        matrix.check_format(full_check=True)
    except (ValueError, AttributeError, TypeError) as error:
        raise ModelFileError(f"a sparse matrix in the base is broken ({error}); save the model again") from None


def _check_random_state(state: Any) -> None:
    """How far the words of the state are used up."""
    words = state.get_state(legacy=False)
    _require(
        words["bit_generator"] == "MT19937" and 0 <= words["state"]["pos"] <= STATE_WORDS, "a random state is none"
    )


def _check_logistic(model: Any) -> None:
    """scikit-learn needs no check; our own kernels do."""
    classes, coefficients = len(model.classes_), model.coef_
    _require(coefficients.dtype.kind == "f" and coefficients.ndim == 2, "coefficients are no numbers")
    rows = coefficients.shape[0]
    _require(
        rows == (classes if classes > 2 else 1) and _width(model) == coefficients.shape[1],
        "coefficients are for other columns",
    )
    _require(np.shape(model.intercept_) == (rows,), "intercepts are for other classes")


def _check_tree_model(model: Any) -> None:
    """Rows are known to have n_features_in_ columns; the tree itself does not look."""
    _require(_is_tree(model) and _width(model) == model.tree_.n_features, "a tree is for other columns")


def _is_tree(model: Any) -> bool:
    return _name_of(model.tree_) == _TREE and bool(model.tree_.node_count >= 1)


def _check_boosting(model: Any) -> None:
    """Stages (iterations, columns) add to the same number of columns of first guesses, and are not looked at again."""
    stages, classes = model.estimators_, len(model.classes_)
    _require(type(stages) is np.ndarray and stages.dtype == object and stages.ndim == 2, "stages are none")
    _require(stages.size > 0, "there are no stages")
    _require(all(type(one).__name__ == "DecisionTreeRegressor" for one in stages.flat), "a stage is no tree")
    same = all(hasattr(one, "tree_") and _is_tree(one) and _width(one) == _width(model) for one in stages.flat)
    _require(same, "a stage is for other columns")
    _require(type(model._loss).__module__ == "sklearn._loss.loss", "the loss is none")
    columns = classes if model._loss.is_multiclass else 1
    _require(stages.shape[1] == columns, "there are stages for other classes")
    first = model.init_
    if isinstance(first, str):
        _require(first == "zero" and model.n_trees_per_iteration_ == columns, "first guesses are for other classes")
        return
    if _name_of(first) != "sklearn.dummy.DummyClassifier":
        _refuse_unchecked(model, "a first guess of its own")
    _require((first.strategy, first._strategy, first.n_outputs_) == ("prior", "prior", 1), "first guesses are none")
    prior = first.class_prior_
    _require(type(prior) is np.ndarray and prior.shape == (classes,), "first guesses are for other classes")


def _check_hist_boosting(model: Any) -> None:
    _require(type(model._bin_mapper).__name__ == "_BinMapper", "the bins are none")
    if model._preprocessor is not None or np.any(model._bin_mapper.is_categorical_):
        _refuse_unchecked(model, "categorical features")
    _require(not hasattr(model, "_in_fit"), "a model in training")
    width = _width(model)
    for tree in (tree for stage in model._predictors for tree in stage):
        _require(type(tree).__name__ == "TreePredictor", "a stage is no tree")
        inner = np.flatnonzero(tree.nodes["is_leaf"] == 0)
        _require(_below(tree.nodes["feature_idx"][inner], width), "a tree asks for a feature that is not there")
        _require(not tree.nodes["is_categorical"][inner].any(), "a tree asks for categories that are not there")


def _check_boosted_tree(tree: Any) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes = tree.nodes
    _require(type(nodes) is np.ndarray and nodes.dtype == PREDICTOR_RECORD_DTYPE and nodes.ndim == 1, "a tree is none")
    _require(len(nodes) >= 1, "a tree is empty")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    _check_children(left, right, inner, len(nodes))


def _check_neighbours(model: Any) -> None:
    """Those trained on, looked through one by one: rows of as many columns, a class for each."""
    if getattr(model, "_fit_method", "brute") != "brute":
        return  # another method asks a tree of points, which has to be trusted by name
    simple = {"minkowski", "euclidean", "sqeuclidean", "manhattan", "cityblock", "l1", "l2", "chebyshev", "cosine"}
    if not {model.metric, model.effective_metric_} <= simple or model.metric_params:
        _refuse_unchecked(model, "another way to measure")
    _require({*model.effective_metric_params_} <= {"p"} and model.outputs_2d_ is False, "a model of other things")
    rows, classes = model._fit_X, model._y
    _require(rows.ndim == 2 and rows.shape[1] == _width(model) and rows.dtype.kind == "f", "rows of other columns")
    _require(sparse.issparse(rows) or type(rows) is np.ndarray, "rows are none")
    _require(type(classes) is np.ndarray and classes.dtype.kind == "i", "classes are none")
    _require(classes.shape == rows.shape[:1] and _below(classes, len(model.classes_)), "rows have other classes")
    _require(model.n_samples_fit_ == len(classes), "there are other rows")
    number = model.n_neighbors
    _require(isinstance(number, int | np.integer) and 1 <= number <= len(classes), "more neighbours than rows")
    if model.weights not in ("uniform", "distance"):
        _refuse_unchecked(model, "weights of its own")


def _check_support_vectors(model: Any) -> None:
    """libsvm takes (C,) counts, (s, F) vectors, (C - 1, s) coefficients and C (C - 1) / 2 thresholds on trust."""
    if model.kernel not in ("linear", "poly", "rbf", "sigmoid"):
        _refuse_unchecked(model, "a kernel of its own")
    vectors, counts, classes = model.support_vectors_, model._n_support, len(model.classes_)
    pairs, n = classes * (classes - 1) // 2, vectors.shape[0]
    numbers = [model._dual_coef_, model._intercept_, model._probA, model._probB]
    thin = sparse.issparse(vectors)
    _require(type(model._sparse) is bool and model._sparse == thin == sparse.issparse(numbers[0]), "vectors are none")
    _require(all(part.dtype == np.float64 for part in (vectors, *numbers)), "vectors are no numbers")
    _require(all(part.dtype == np.int32 for part in (counts, model.support_)), "counts are no numbers")
    _require(classes >= 2 and n >= 1 and vectors.shape == (n, _width(model)), "vectors are for other columns")
    _require(counts.shape == (classes,) and (counts >= 0).all() and counts.sum() == n, "vectors are for other classes")
    whole = not thin or numbers[0].data.size == (classes - 1) * n
    _require(whole and numbers[0].shape == (classes - 1, n), "coefficients are for other vectors")
    _require(model.support_.shape == (n,), "vectors are of other rows")
    sizes = {part.shape for part in numbers[2:]}
    _require(numbers[1].shape == (pairs,) and sizes in ({(0,)}, {(pairs,)}), "thresholds are for other classes")
    own = [getattr(model, name, False) for name in ("probability", "_effective_probability")]
    _require(sizes == {(pairs,)} or all(one in (False, "deprecated") for one in own), "probabilities were not learned")
    weights = getattr(model, "class_weight_", np.empty(0))
    _require(weights.dtype == np.float64 and weights.shape in ((0,), (classes,)), "weights are for other classes")


# What `fit` sets, without which there is nothing to check (None: checked always), and the check.
CHECKED: dict[str, tuple[str | None, Callable[[Any], None]]] = {
    "numpy.random.mtrand.RandomState": (None, _check_random_state),
    _TREE: (None, lambda tree: None),  # before it was built
    "sklearn.ensemble._gb.GradientBoostingClassifier": ("estimators_", _check_boosting),
    f"{_HIST}.gradient_boosting.HistGradientBoostingClassifier": ("_predictors", _check_hist_boosting),
    f"{_HIST}.gradient_boosting.HistGradientBoostingRegressor": ("_predictors", _check_hist_boosting),
    f"{_HIST}.predictor.TreePredictor": (None, _check_boosted_tree),
    "sklearn.linear_model._logistic.LogisticRegression": ("coef_", _check_logistic),
    "sklearn.linear_model._logistic.LogisticRegressionCV": ("coef_", _check_logistic),
    "sklearn.neighbors._classification.KNeighborsClassifier": ("_fit_X", _check_neighbours),
    "sklearn.svm._classes.NuSVC": ("support_vectors_", _check_support_vectors),
    "sklearn.svm._classes.SVC": ("support_vectors_", _check_support_vectors),
    "sklearn.tree._classes.DecisionTreeClassifier": ("tree_", _check_tree_model),
    "sklearn.tree._classes.DecisionTreeRegressor": ("tree_", _check_tree_model),
    "sklearn.tree._classes.ExtraTreeClassifier": ("tree_", _check_tree_model),
    "sklearn.tree._classes.ExtraTreeRegressor": ("tree_", _check_tree_model),
}


def _width(model: Any) -> int:
    """What the model itself makes sure of when it is asked."""
    width = getattr(model, "n_features_in_", None)
    _require(isinstance(width, int | np.integer) and not isinstance(width, bool), "the number of columns is none")
    return int(width)  # type: ignore[arg-type]


def _below(numbers: Any, count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


def _require(finite: bool | np.bool_, what: str) -> None:
    if not finite:
        raise ModelFileError(f"{what}: the file was altered or is broken; save the model again")


def _name_of(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _refuse_unchecked(model: Any, what: str) -> None:
    name = _name_of(model)
    raise UntrustedError(f"the base has {what}, which is not known to be safe: {name}", [name])


# -- trained bases in model files -----------------------------------------------------------------------


def put_learner(state: ModelFile, level: int | str, learner: Learner) -> None:
    state.arrays[f"level.{level}.columns"] = learner.columns
    if learner.estimator is not None:
        state.arrays[f"level.{level}.skops"] = np.frombuffer(_dumps(learner.estimator), np.uint8)


def restored_learner(file: ModelFile, level: int | str, n_labels: int, trusted: Sequence[str]) -> Learner:
    columns = np.asarray(file.arrays[f"level.{level}.columns"], np.int64)
    packed = file.arrays.get(f"level.{level}.skops")
    fits(columns.ndim == 1 and len(columns) >= 1 and (np.diff(columns) > 0).all())
    fits(columns[0] >= 0 and columns[-1] < n_labels and (packed is not None or len(columns) == 1))
    estimator = None if packed is None else built(packed.tobytes(), trusted)
    fits(np.array_equal(np.asarray(getattr(estimator, "classes_", columns)), columns))
    return Learner.restored(estimator, columns, n_labels)


def _dumps(estimator: Any) -> bytes:
    from skops.io import dumps

    try:
        return bytes(dumps(estimator))
    except Exception as error:  # skops raises what its parts raise
        raise ModelFileError(
            f"{type(estimator).__name__} cannot be written by skops ({error}); build the base of scikit-learn's parts"
        ) from error
