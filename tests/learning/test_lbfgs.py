"""The optimiser against closed forms, textbook recursions and other optimisers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kinfolk.errors import InputError
from kinfolk.learning import lbfgs as vectors
from kinfolk.learning.lbfgs import REFRESH, Iteration, Memory, Objective, Watch, _LineSearch, minimise
from strategies import SEEDS

quick = settings(max_examples=80, database=None)
few = settings(max_examples=25, database=None)

Array = np.ndarray
TIGHT: dict[str, Any] = {"tolerance": 1e-15, "max_iterations": 5000}


def quadratic(rng: np.random.Generator, n: int, l2: float, spread: float = 30.0) -> tuple[Objective, Array, Array]:
    """f(x) = ½ xᵀ A x - bᵀ x, with A = BᵀB · spread + l2: (f, A, b)."""
    B = rng.standard_normal((n, n)) * np.sqrt(spread * rng.random(n) / n)
    A, b = B.T @ B + l2 * np.eye(n), rng.standard_normal(n)

    def f(x: Array, gradient: Array) -> float:
        product = A @ x
        gradient[:] = product - b
        return float(0.5 * x @ product - b @ x)

    return f, A, b


def logistic(rng: np.random.Generator, n: int, l2: float) -> Objective:
    """Σ log(1 + exp(-y x·w)) + l2/2 |w|²."""
    X, y = rng.standard_normal((4 * n, n)), rng.choice([-1.0, 1.0], size=4 * n)

    def f(w: Array, gradient: Array) -> float:
        margin = y * (X @ w)
        gradient[:] = l2 * w - X.T @ (y * scipy.special.expit(-margin))
        return float(np.logaddexp(0, -margin).sum() + 0.5 * l2 * w @ w)

    return f


def value_of(f: Objective, x: Array, l1: float = 0.0) -> float:
    return f(x, np.empty_like(x)) + l1 * float(np.abs(x).sum())


def gradient_of(f: Objective, x: Array) -> Array:
    gradient = np.empty_like(x)
    f(x, gradient)
    return gradient


def proximal_gradient(f: Objective, x: Array, l1: float, lipschitz: float, iterations: int = 2000) -> Array:
    """FISTA with restarts: minimises f(x) + l1 |x|₁."""
    y, momentum, best = x, 1.0, np.inf
    for _ in range(iterations):
        step = y - gradient_of(f, y) / lipschitz
        after = np.sign(step) * np.maximum(np.abs(step) - l1 / lipschitz, 0)
        value = value_of(f, after, l1)
        if value > best:
            momentum, y = 1.0, x
            best = np.inf
            continue
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        y = after + (momentum - 1) / following * (after - x)
        x, momentum, best = after, following, value
    return x


# ----------------------------------------------------------------------------------------------- the optimum


@few
@given(st.integers(1, 12), st.sampled_from([0.1, 1.0, 10.0]), st.integers(1, 8), SEEDS)
def test_quadratics_end_at_the_closed_form(n: int, l2: float, memory: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, A, b = quadratic(rng, n, l2)
    start = rng.standard_normal(n)
    found = minimise(f, start, memory=memory, **TIGHT)
    best = np.linalg.solve(A, b)
    assert found.status in ("converged", "stalled")
    assert_allclose(found.objective, -0.5 * b @ best, rtol=1e-8, atol=1e-10)
    assert_allclose(found.weights, best, rtol=1e-3, atol=1e-4)
    assert found.objective == value_of(f, found.weights)


@few
@given(st.integers(1, 10), st.sampled_from([0.01, 1.0]), SEEDS)
def test_logistic_regression_as_scipy(n: int, l2: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, start = logistic(rng, n, l2), rng.standard_normal(n)
    found = minimise(f, start, **TIGHT)
    theirs = scipy.optimize.minimize(
        lambda x: (value_of(f, x), gradient_of(f, x)), start, jac=True, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10000},
    )  # fmt: skip
    assert_allclose(found.objective, theirs.fun, rtol=1e-8)


@few
@given(st.integers(2, 12), SEEDS, st.booleans())
def test_preconditioning_changes_the_path_not_the_end(n: int, seed: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    f, A, b = quadratic(rng, n, 0.5)
    inverse = 1 / np.diag(A) if exact else rng.uniform(0.01, 10, size=n)
    start = rng.standard_normal(n)
    plain, with_it = minimise(f, start, **TIGHT), minimise(f, start, inverse_curvature=lambda: inverse, **TIGHT)
    expected = -0.5 * b @ np.linalg.solve(A, b)
    assert_allclose([plain.objective, with_it.objective], expected, rtol=1e-8, atol=1e-10)


def test_a_diagonal_quadratic_falls_at_once_with_its_curvature() -> None:
    curvature = np.array([1e-3, 1.0, 1e4])

    def f(x: Array, gradient: Array) -> float:
        gradient[:] = curvature * (x - 1)
        return float(0.5 * curvature @ (x - 1) ** 2)

    found = minimise(f, np.zeros(3), inverse_curvature=lambda: 1 / curvature)
    assert_allclose(found.weights, 1)
    assert found.iterations == 1
    assert found.evaluations == 2
    assert found.status == "converged"


def test_curvature_is_asked_for_where_the_objective_was_just_evaluated() -> None:
    calls: list[str] = []
    f, _, _ = quadratic(np.random.default_rng(0), 4, 1.0)

    def noted(x: Array, gradient: Array) -> float:
        calls.append("objective")
        return f(x, gradient)

    def inverse() -> Array:
        calls.append("curvature")
        return np.ones(4)

    found = minimise(noted, np.zeros(4), inverse_curvature=inverse, tolerance=0.0)
    assert calls[:2] == ["objective", "curvature"]
    assert all(calls[i - 1] == "objective" for i, name in enumerate(calls) if name == "curvature")
    assert calls.count("curvature") == 1 + sum(number <= found.iterations for number in REFRESH)


def test_the_first_step_may_be_a_share_of_what_the_curvature_promises() -> None:
    steps: list[float] = []

    def bowl(x: Array, gradient: Array) -> float:
        gradient[:] = 8 * x
        return float(4 * x @ x)

    for first in (1.0, 0.25, 0.125):
        note: list[float] = []
        found = minimise(
            bowl, np.ones(3), inverse_curvature=lambda: np.ones(3), first=first, tolerance=0.0,
            callback=lambda one, note=note: note.append(one.step),  # type: ignore[misc]
        )  # fmt: skip
        steps.append(note[0])
        assert found.status == "converged" and found.objective < 1e-12
    assert steps == [0.125, 0.125, 0.125], "a whole step is halved three times, a quarter once"


# -------------------------------------------------------------------------------------------------------- L1


@few
@given(st.integers(1, 10), st.sampled_from([0.1, 0.5, 2.0, 100.0]), st.booleans(), st.integers(1, 6), SEEDS)
def test_lasso_is_optimal(n: int, l1: float, preconditioned: bool, memory: int, seed: int) -> None:
    """Subgradient conditions, and the value of a proximal method."""
    rng = np.random.default_rng(seed)
    f, A, _ = quadratic(rng, n, 0.3)
    start = rng.choice([0.0, 1.0], size=n) * rng.standard_normal(n)
    inverse = (lambda: 1 / np.diag(A)) if preconditioned else None
    found = minimise(f, start, l1=l1, inverse_curvature=inverse, memory=memory, **TIGHT)
    reference = proximal_gradient(f, start, l1, float(np.linalg.eigvalsh(A)[-1]))
    assert_allclose(found.objective, value_of(f, reference, l1), rtol=1e-7, atol=1e-9)
    assert_allclose(found.objective, value_of(f, found.weights, l1), rtol=1e-12)
    x, gradient = found.weights, gradient_of(f, found.weights)
    tolerance = 1e-3 * max(1.0, l1)
    assert (np.abs(gradient + l1 * np.sign(x))[x != 0] <= tolerance).all()
    assert (np.abs(gradient[x == 0]) <= l1 + tolerance).all()


@few
@given(st.integers(2, 8), SEEDS)
def test_lasso_logistic_regression_is_optimal(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, l1 = logistic(rng, n, 0.0), 1.5
    found = minimise(f, np.zeros(n), l1=l1, **TIGHT)
    x, gradient = found.weights, gradient_of(f, found.weights)
    assert (np.abs(gradient + l1 * np.sign(x))[x != 0] <= 1e-3).all()
    assert (np.abs(gradient[x == 0]) <= l1 + 1e-3).all()


def test_a_strong_lasso_leaves_exact_zeros() -> None:
    f, _, b = quadratic(np.random.default_rng(1), 6, 1.0)
    strongest = np.abs(b).max()
    stay = minimise(f, np.zeros(6), l1=1.01 * strongest)
    assert_array_equal(stay.weights, 0)
    assert (stay.status, stay.iterations, stay.evaluations) == ("converged", 0, 1)
    come = minimise(f, np.ones(6), l1=1.01 * strongest, **TIGHT)
    assert_array_equal(come.weights, 0)
    some = minimise(f, np.zeros(6), l1=0.9 * strongest, **TIGHT)
    assert 0 < np.count_nonzero(some.weights) < 6


def test_pseudo_gradient_by_hand() -> None:
    at = np.array([0.0, 0.0, 0.0, 0.0, 2.0, -2.0])
    gradient = np.array([3.0, -3.0, 0.5, 0.0, 0.5, 0.5])
    assert_array_equal(vectors.pseudo_gradient(at, gradient, 1.0), [2.0, -2.0, 0.0, 0.0, 1.5, -0.5])


# ------------------------------------------------------------------------------------------------ the search


@quick
@given(st.integers(1, 10), st.sampled_from([0.0, 0.5]), st.booleans(), SEEDS, st.sampled_from([np.float32, np.float64]))
def test_the_objective_never_rises(n: int, l1: float, convex: bool, seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    smooth = logistic(rng, n, 0.1)
    start = (3 * rng.standard_normal(n)).astype(dtype)

    def f(x: Array, gradient: Array) -> float:
        value = smooth(x, gradient)
        if convex:
            return value
        gradient += 5 * np.cos(3 * x)
        return value + float(5 / 3 * np.sin(3 * x).sum())

    seen: list[Iteration] = []
    found = minimise(f, start, l1=l1, callback=seen.append, max_iterations=60)
    values = [value_of(f, start, l1), *(step.objective for step in seen)]
    assert all(after <= before for before, after in itertools.pairwise(values))
    assert found.weights.dtype == dtype
    assert found.objective == values[-1]
    assert found.iterations == len(seen)


@few
@given(st.integers(1, 10), st.sampled_from([0.0, 0.5]), SEEDS)
def test_what_the_callback_is_told(n: int, l1: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, _, _ = quadratic(rng, n, 0.5)
    calls = 0

    def counted(x: Array, gradient: Array) -> float:
        nonlocal calls
        calls += 1
        return f(x, gradient)

    seen: list[tuple[Iteration, Array]] = []
    found = minimise(counted, rng.standard_normal(n), l1=l1, callback=lambda it: seen.append((it, it.weights.copy())))
    assert found.evaluations == calls
    for number, (step, weights) in enumerate(seen, 1):
        assert step.number == number
        assert step.step > 0
        assert step.objective == pytest.approx(value_of(f, weights, l1), rel=1e-12, abs=1e-12)


def test_a_direction_that_does_not_descend_is_refused() -> None:
    """A sine comes back to where it was: without the check a long step up would be taken."""

    def f(x: Array, gradient: Array) -> float:
        gradient[:] = np.cos(x)
        return float(np.sin(x).sum())

    at = np.zeros(1)
    search = _LineSearch(f, at, 0.0, gradient_of(f, at), 0.0, 1, np.empty_like(at), np.empty_like(at))
    assert not search.along(np.ones(1), 2 * np.pi + 1e-5)
    assert not search.along(np.zeros(1), 1.0)
    assert search.evaluations == 0
    assert search.along(-np.ones(1), 1.0)


# -------------------------------------------------------------------------------------------------- statuses


def test_statuses() -> None:
    f, _, _ = quadratic(np.random.default_rng(2), 8, 0.1)
    start = np.ones(8)

    tries = iter(range(1000))

    def rising(x: Array, gradient: Array) -> float:
        """Higher at every evaluation, wherever it is."""
        gradient[:] = 1.0
        return float(next(tries))

    assert minimise(f, start).status == "converged"
    limited = minimise(f, start, max_iterations=2)
    assert (limited.status, limited.iterations) == ("limit", 2)
    stopped = minimise(f, start, callback=lambda step: step.number == 3)
    assert (stopped.status, stopped.iterations) == ("stopped", 3)
    stalled = minimise(rising, start)
    assert (stalled.status, stalled.iterations, stalled.objective) == ("stalled", 0, 0.0)
    assert_array_equal(stalled.weights, start)


def test_no_iterations_and_no_weights() -> None:
    f, _, _ = quadratic(np.random.default_rng(2), 3, 0.1)
    none = minimise(f, np.ones(3), max_iterations=0)
    assert (none.status, none.iterations, none.evaluations) == ("limit", 0, 1)
    empty = minimise(lambda x, gradient: 1.0, np.zeros(0))
    assert (empty.status, empty.objective) == ("converged", 1.0)


def test_a_flat_start_has_converged() -> None:
    f, A, b = quadratic(np.random.default_rng(4), 3, 1.0)
    best = np.linalg.solve(A, b)
    found = minimise(lambda x, g: f(x, g) + 1e6, best)
    assert (found.status, found.iterations) == ("converged", 0)


def test_tolerance_counts_over_the_window() -> None:
    """A steady fall of 1 in 1000 an iteration: 5 of them are below a tolerance of 1 %, above one of 0.1 %."""
    f = slow_descent()
    assert minimise(f, np.zeros(1), tolerance=1e-2, window=5, max_iterations=50).iterations == 5
    assert minimise(f, np.zeros(1), tolerance=1e-2, window=7, max_iterations=50).iterations == 7
    assert minimise(f, np.zeros(1), tolerance=1e-3, window=5, max_iterations=50).status == "limit"


def slow_descent() -> Objective:
    """A line that falls by 1 from 1000 whatever the step: the weights never matter."""
    calls = iter(range(10**6))

    def f(x: Array, gradient: Array) -> float:
        gradient[:] = 1e-3
        return 1000.0 - next(calls)

    return f


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_start_that_is_not_finite_is_an_error(value: float) -> None:
    with pytest.raises(InputError, match="must be finite where it starts"):
        minimise(lambda x, gradient: value, np.zeros(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_steps_to_where_the_objective_is_not_finite_are_cut(bad: float) -> None:
    """-log x + x, which exists for x > 0 only."""

    def f(x: Array, gradient: Array) -> float:
        gradient[:] = 1 - 1 / x
        return float((x - np.log(x)).sum()) if (x > 0).all() else bad

    found = minimise(f, np.array([5.0, 0.5, 20.0]), **TIGHT)
    assert_allclose(found.weights, 1, rtol=1e-5)


@few
@given(st.integers(1, 6), st.sampled_from([0.0, 0.5]), st.booleans(), SEEDS)
def test_the_start_is_left_untouched(n: int, l1: float, preconditioned: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, A, _ = quadratic(rng, n, 0.5)
    start, inverse = rng.standard_normal(n), 1 / np.diag(A)
    copies = start.copy(), inverse.copy()
    minimise(f, start, l1=l1, inverse_curvature=(lambda: inverse) if preconditioned else None)
    assert_array_equal(start, copies[0])
    assert_array_equal(inverse, copies[1])


@few
@given(
    st.sampled_from([1, 31, 2049, 70_000]),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from([np.float32, np.float64]),
    SEEDS,
)
def test_threads_change_nothing(n: int, l1: float, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    curvature, target = rng.uniform(0.1, 10, size=n).astype(dtype), rng.standard_normal(n).astype(dtype)

    def f(x: Array, gradient: Array) -> float:
        gradient[:] = curvature * (x - target) + np.sin(x)
        return float((0.5 * curvature * (x - target) ** 2 - np.cos(x)).sum(dtype=np.float64))

    one, two = (minimise(f, np.zeros(n, dtype), l1=l1, max_iterations=8, n_jobs=jobs) for jobs in (1, 2))
    assert_array_equal(one.weights, two.weights)
    assert one.objective == two.objective
    assert one.evaluations == two.evaluations


# ------------------------------------------------------------------------------------------------ the memory


def two_loops(pairs: list[tuple[Array, Array]], gradient: Array, inverse: Array) -> Array:
    """Nocedal's recursion: -(approximate inverse Hessian) · gradient, from pairs (s, y), oldest first."""
    q, alphas = gradient.copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q = q - alphas[-1] * y
    scale = 1.0
    if pairs:
        s, y = pairs[-1]
        scale = s @ y / (y @ (inverse * y))
    r = scale * inverse * q
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        r = r + s * (alpha - y @ r / (s @ y))
    return -r


def pair_maker(rng: np.random.Generator, n: int) -> Callable[[bool], tuple[Array, Array]]:
    """Pairs of a step and a change, of positive curvature as under one convex function, or of negative."""
    B = rng.standard_normal((n, n))
    hessian = B @ B.T / n + 0.5 * np.eye(n)

    def make(usable: bool) -> tuple[Array, Array]:
        s = rng.standard_normal(n)
        return s, (1 if usable else -1) * (hessian @ s)

    return make


@quick
@given(
    st.integers(1, 7), st.integers(1, 12), st.lists(st.sampled_from([True, True, True, False]), max_size=20),
    st.booleans(), SEEDS,
)  # fmt: skip
def test_direction_equals_the_two_loop_recursion(
    size: int, n: int, usable: list[bool], preconditioned: bool, seed: int
) -> None:
    """Pairs come and go; one of negative curvature is not kept, and empties a full memory."""
    rng = np.random.default_rng(seed)
    make, inverse = pair_maker(rng, n), rng.uniform(0.2, 5, size=n) if preconditioned else np.ones(n)
    memory, kept = Memory(size, np.zeros(n)), []
    for good in usable:
        s, y = make(good)
        before, old = rng.standard_normal((2, n))
        memory.add(before + s, before, old + y, old, inverse, 1)
        if good:
            kept = [*kept, (before + s - before, old + y - old)][-size:]
        elif len(kept) == size:
            kept = []
        assert memory.filled == len(kept)
        gradient = rng.standard_normal(n)
        expected = two_loops(kept, gradient, inverse)
        found = memory.direction(gradient, inverse, 1, np.empty_like(gradient))
        assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
        assert found @ gradient < 0


def test_direction_of_an_empty_memory_is_steepest_descent() -> None:
    gradient, inverse = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    assert_array_equal(
        Memory(3, gradient).direction(gradient, inverse, 1, np.empty_like(gradient)), -inverse * gradient
    )


def test_a_forgetful_memory_starts_again() -> None:
    rng = np.random.default_rng(7)
    make, inverse = pair_maker(rng, 5), np.ones(5)
    memory, fresh = Memory(3, np.zeros(5)), Memory(3, np.zeros(5))
    zeros = np.zeros(5)
    for _ in range(5):
        s, y = make(True)
        memory.add(s, zeros, y, zeros, inverse, 1)
    memory.forget()
    gradient = rng.standard_normal(5)
    assert_array_equal(memory.direction(gradient, inverse, 1, np.empty_like(gradient)), -gradient)
    for _ in range(5):
        s, y = make(True)
        memory.add(s, zeros, y, zeros, inverse, 1)
        fresh.add(s, zeros, y, zeros, inverse, 1)
        assert_allclose(
            memory.direction(gradient, inverse, 1, np.empty_like(gradient)),
            fresh.direction(gradient, inverse, 1, np.empty_like(gradient)),
            rtol=1e-12,
        )


def test_a_pair_without_a_step_is_not_kept() -> None:
    memory, zeros = Memory(2, np.zeros(3)), np.zeros(3)
    memory.add(zeros, zeros, zeros, zeros, np.ones(3), 1)
    assert memory.filled == 0


# --------------------------------------------------------------------------------------------- long vectors


@few
@given(
    st.sampled_from([0, 1, 31, 32, 33, 2047, 2048, 2049, 70_000]), st.integers(0, 3),
    st.sampled_from([np.float32, np.float64]), SEEDS,
)  # fmt: skip
def test_vector_passes_equal_numpy(n: int, m: int, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, changes = rng.standard_normal((2, m, n)).astype(dtype)
    a, b, inverse = rng.standard_normal((3, n)).astype(dtype)
    pairs = vectors.Pairs(steps, changes, inverse)
    tolerance = {"rtol": 0, "atol": (1e-3 if dtype == np.float32 else 1e-10) * max(1, n) ** 0.5}
    wide = [x.astype(np.float64) for x in (steps, changes, a, b, inverse)]
    S, Y, A, B, H = wide
    for jobs in (1, 2):
        assert_allclose(vectors.dot(a, b, jobs), A @ B, **tolerance)
        assert_allclose(vectors.products(pairs, a, b, jobs), [S @ A, Y @ B, Y @ (H * A)], **tolerance)
        none = vectors.products(pairs, a, None, jobs)
        assert_allclose(none, [S @ A, np.zeros(m), Y @ (H * A)], **tolerance)
        assert_allclose(vectors.linear(a, -2.5, b, jobs), A - 2.5 * B, **tolerance)
        p, q = rng.standard_normal((2, m))
        mixed = vectors.combine(pairs, p, q, 1.5, a, jobs, np.empty_like(a))
        assert mixed.dtype == dtype
        assert_allclose(mixed, p @ S + H * (q @ Y + 1.5 * A), **tolerance)
    assert_allclose(vectors.absolute_sum(a), np.abs(A).sum(), **tolerance)


def cliff(weights, gradient):
    """A bowl with a cliff at 0.3: every step across it is refused."""
    gradient[:] = weights - 1
    return float(0.5 * ((weights - 1) ** 2).sum() + (100.0 if weights[0] > 0.3 else 0.0))


def test_what_promises_to_gain_next_to_nothing_is_not_tried():
    """At the edge of the cliff no step is accepted, and with a tolerance few are tried."""
    found = minimise(cliff, np.full(1, np.nextafter(0.3, 0)), tolerance=1e-3, lengthening=2.0)
    assert found.status == "stalled" and found.iterations == 0 and found.evaluations <= 15


def test_steps_do_not_lengthen_faster_than_told():
    steps: list[float] = []

    def note(iteration):
        steps.append(iteration.step)
        return len(steps) > 5

    start = np.zeros(1)
    minimise(cliff, start, tolerance=0.0, lengthening=2.0, callback=note)
    assert all(b <= 2 * a for a, b in itertools.pairwise(steps)) and len(steps) > 2


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_is_the_number_of_iterations_made(limit: int) -> None:
    f, _, _ = quadratic(np.random.default_rng(2), 8, 0.1)
    made: list[int] = []
    minimise(f, np.ones(8), max_iterations=limit, callback=lambda step: made.append(step.number))
    assert made == list(range(1, limit + 1))


def test_the_first_step_without_curvature_is_no_longer_than_one() -> None:
    f, _, _ = quadratic(np.random.default_rng(2), 8, 0.1)
    start, seen = np.full(8, 50.0), []

    def followed(x: Array, gradient: Array) -> float:
        seen.append(x.copy())
        return f(x, gradient)

    minimise(followed, start, max_iterations=1)
    assert np.linalg.norm(gradient_of(f, start)) > 2
    assert np.linalg.norm(seen[1] - start) <= 1 + 1e-9


class Whole:
    """Weights that are not split."""

    def split(self, flat: Array) -> Array:
        return flat


def watched(scores: list[float] | None, **given: Any) -> tuple[Watch, list[int]]:
    """After iterations until it says to stop: what has watched, and the iterations."""
    chosen = {"stage": "x", "max_iterations": 20, "by_held_out": True, "dev_every": 2, "patience": 2, **given}
    left = None if scores is None else iter(scores)
    watch = Watch(Whole(), SimpleNamespace(**chosen), None if left is None else lambda _: next(left), None, 0.0)  # type: ignore[arg-type]
    for number in range(1, 21):
        if watch.after_iteration(Iteration(number, 1.0, 1.0, 1.0, 1, np.array([float(number)]))):
            break
    return watch, [n for n, _ in watch.objectives]


def test_held_out_data_are_scored_so_often_and_the_first_of_the_best_is_kept() -> None:
    watch, numbers = watched([1.0, 3.0, 3.0, 2.0, 9.0])
    assert watch.dev_scores == {2: 1.0, 4: 3.0, 6: 3.0, 8: 2.0}
    assert watch.best_iteration == 4
    assert_array_equal(watch.best_weights, [4.0])
    assert numbers[-1] == 4 + 2 * 2  # patience counts scores, not iterations
    assert watch.score(8, np.zeros(1)) is None  # known: not asked again
    assert watch.dev_scores[8] == 2.0


def test_without_held_out_data_nothing_is_scored_and_nothing_stops() -> None:
    watch, numbers = watched(None)
    assert (watch.dev_scores, watch.best_iteration, len(numbers)) == ({}, None, 20)
