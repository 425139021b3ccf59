"""Generated customers: the same for a seed, in the shares asked for, with mistakes that are mistakes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.datasets.customers import FIELDS, KINDS, generate_customers, typo
from kinfolk.errors import SettingError
from kinfolk.linking.blocking import blocked
from kinfolk.linking.mentions import Mentions


def told(items: Mentions) -> dict[str, list[str | None]]:
    return {name: column.strings() for name, column in items.columns.items()}  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def drawn() -> Mentions:
    return generate_customers(8000, duplicates=0.4, seed=3)


def test_same_seed_same_records() -> None:
    first, again, other = (generate_customers(300, seed=seed) for seed in (1, 1, 2))
    assert told(first) == told(again) and first.names == again.names
    assert np.array_equal(first.clusters, again.clusters)  # type: ignore[arg-type]
    assert told(first) != told(other)


def test_no_global_random_state() -> None:
    state = np.random.get_state()  # noqa: NPY002
    first = told(generate_customers(100))
    np.random.seed(5)  # noqa: NPY002
    after = np.random.get_state()  # noqa: NPY002
    assert told(generate_customers(100)) == first
    assert np.array_equal(np.random.get_state()[1], after[1])  # type: ignore[index]  # noqa: NPY002
    np.random.set_state(state)  # noqa: NPY002


def test_sizes_and_names(drawn: Mentions) -> None:
    assert drawn.n_items == 8000 and drawn.n_pairs == 0 and drawn.n_groups == 1 and tuple(drawn.columns) == FIELDS
    assert drawn.names is not None and drawn.clusters is not None
    assert len(set(drawn.names)) == 8000
    kinds = Counter(name.split("-")[2] for name in drawn.names)
    assert kinds == {"org": 4800, "dup": 3200}
    assert all(int(name.split("-")[1]) == cluster for name, cluster in zip(drawn.names, drawn.clusters, strict=True))
    assert not np.array_equal(np.sort(drawn.clusters), drawn.clusters)


def test_numbers_of_duplicates_are_near_poisson(drawn: Mentions) -> None:
    repeats = np.bincount(drawn.clusters) - 1  # type: ignore[arg-type]
    assert repeats.min() == 0 and repeats.mean() == pytest.approx(2 / 3)
    assert repeats.var() == pytest.approx(2 / 3, rel=0.1)
    assert (repeats == 0).mean() == pytest.approx(np.exp(-2 / 3), abs=0.03)


def test_people_differ_and_places_have_one_postcode() -> None:
    rows = told(generate_customers(3000, duplicates=0.0, missing=0.0))
    assert len(set(rows["id_number"])) == 3000
    assert len(set(zip(*(rows[name] for name in ("given_name", "surname", "date_of_birth")), strict=True))) == 3000
    assert len(set(rows["postcode"])) == len(set(zip(*(rows[f] for f in ("postcode", "suburb", "state")), strict=True)))
    common = Counter(rows["surname"]).most_common(1)[0][1]
    assert 3 <= common <= 150  # some names are common, none is everybody's


def test_blocks_by_place_do_not_grow() -> None:
    sizes = {}
    for n in (4000, 16000):
        sizes[n] = blocked(generate_customers(n, duplicates=0.0), "key(postcode)")[1].n_pairs / n
    assert sizes[16000] == pytest.approx(sizes[4000], rel=0.2)


def test_without_mistakes_duplicates_are_equal() -> None:
    items = generate_customers(500, typos=0.0, swapped=0.0, missing=0.0)
    assert _differences(items).sum() == 0 and all(None not in column for column in told(items).values())


def test_mistakes_are_as_many_as_asked_for() -> None:
    items = generate_customers(6000, typos=2.0, swapped=0.0, missing=0.0)
    changed = _differences(items)
    assert changed.sum(axis=1).mean() == pytest.approx(1.8, abs=0.15)  # two typos in one field count once
    assert (changed.sum(axis=1) == 0).mean() == pytest.approx(np.exp(-2), abs=0.03)
    assert (changed.mean(axis=0) > 0.02).all()
    swapped = _differences(generate_customers(6000, typos=0.0, swapped=0.2, missing=0.0))
    assert swapped[:, :2].mean(axis=0) == pytest.approx(0.2, abs=0.03) and swapped[:, 2:].sum() == 0


def test_missing_values() -> None:
    rows = told(generate_customers(4000, missing=0.1))
    for name in FIELDS:
        share = np.mean([value is None for value in rows[name]])
        assert share == 0 if name == "id_number" else share == pytest.approx(0.1, abs=0.02)


def _differences(items: Mentions) -> Any:
    """bool (duplicates, fields): where a duplicate differs from the person's first record."""
    assert items.names is not None
    place = {name: i for i, name in enumerate(items.names)}
    pairs = [(i, place[name.split("-dup-")[0] + "-org"]) for name, i in place.items() if "dup" in name]
    rows = told(items)
    return np.array([[rows[name][i] != rows[name][j] for name in FIELDS] for i, j in pairs])


@given(st.text("ab01mo zé", max_size=6), st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True), st.floats(0, 0.999))
def test_typos_change_the_text(text: str, kind: str, where: float, what: float) -> None:
    changed = typo(text, kind, where, what)
    assert changed and changed != text and abs(len(changed) - len(text)) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_typos(kind: str) -> None:
    found = typo("smith", kind, 0.3, 0.0)
    expected = {"insert": "samith", "delete": "sith", "change": "saith", "swap": "simth", "alike": "srnith"}
    assert found == expected[kind]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_few(n: int) -> None:
    items = generate_customers(n, duplicates=1.0)
    assert items.n_items == n and len(items.names or ()) == n
    assert set(items.clusters.tolist()) <= {0}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wrong",
    [{"n_records": -1}, {"n_records": 1.5}, {"duplicates": 1.1}, {"missing": -0.1}, {"typos": -1}, {"seed": 0.5}],
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        generate_customers(**{"n_records": 10, **wrong})
