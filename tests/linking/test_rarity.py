"""Agreement by how rare a value is, beside counting by hand; what training counted stays with the model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import ModelFileError, SettingError
from kinfolk.linking.rarity import VALUES, Rarity, rarity_levels

LETTERS = st.lists(st.none() | st.sampled_from(["Ana", "ana", "Bo", "Cy", "Dee", "..."]), max_size=40)


def table(values: list[str | None], clusters: list[int] | None = None) -> kf.Mentions:
    none = np.empty(0, np.int32)
    return kf.Mentions({"f": list(values)}, np.zeros(len(values), np.int32), none, none, clusters)


def clean(value: str | None) -> str | None:
    return None if value is None or value == "..." else value.lower()


def by_hand(seen: list[str | None], entities: list[int], a: str | None, b: str | None) -> str:
    """The word for a pair, counted one value at a time."""
    a, b = clean(a), clean(b)
    if a is None or b is None:
        return VALUES[0]
    if a != b:
        return VALUES[1]
    owners: dict[str, set[int]] = {}
    for value, entity in zip(seen, entities, strict=True):
        if clean(value) is not None:
            owners.setdefault(str(clean(value)), set()).add(entity)
    n = len({entity for those in owners.values() for entity in those})
    twice = [len(those) for those in owners.values() if len(those) >= 2]
    count = len(owners.get(a, ()))
    count = count if count >= 2 else min(twice, default=2)
    level, share = 0, 1.0
    while level < 9 and share / 4 >= count / max(n, 1):
        level, share = level + 1, share / 4
    return VALUES[2 + level]


@given(LETTERS, LETTERS, st.data())
def test_levels_are_those_counted_by_hand(seen: list[str | None], asked: list[str | None], data: st.DataObject):
    clusters = data.draw(st.lists(st.integers(-1, 5), min_size=len(seen), max_size=len(seen)))
    entities = [100 + i if cluster < 0 else cluster for i, cluster in enumerate(clusters)]
    feature = Rarity("f").learn(table(seen, clusters))
    n = len(asked)
    left, right = (side.reshape(-1).astype(np.int32) for side in np.indices((n, n)))
    codes = feature.of(table(asked))(left, right)
    assert codes.shape == (n * n, 1) and codes.dtype == np.uint8
    wanted = [by_hand(seen, entities, asked[i], asked[j]) for i, j in zip(left.tolist(), right.tolist(), strict=True)]
    assert [VALUES[code] for code in codes[:, 0].tolist()] == wanted


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_a_level_is_the_logarithm_to_base_four(count: int, n: int):
    found = int(rarity_levels([count], n)[0])
    exact = max(0.0, -math.log(count / n) / math.log(4))
    assert found == min(9, math.floor(exact)) or abs(exact - round(exact)) < 1e-9


def test_powers_of_four_start_a_level():
    assert rarity_levels([4**9 // 4**k for k in range(10)], 4**9).tolist() == list(range(10))
    assert rarity_levels([1], 4**12).tolist() == [9]
    assert rarity_levels([], 5).tolist() == []


def people(seed: int) -> kf.Mentions:
    """Surnames alone: a common one is shared by many persons, a rare one by the records of one or two."""
    rng = np.random.default_rng(seed)
    names = ["smith"] * 60 + [f"rare{k // 2}" for k in range(60)]
    surnames = [name for name in names for _ in range(2)]
    order = rng.permutation(len(surnames))
    return table([surnames[k] for k in order], [int(k // 2) for k in order])


def test_agreeing_on_a_rare_value_weighs_more_and_the_file_keeps_what_was_counted(tmp_path: Path):
    linker = kf.Linker(["rarity(f)"], training="local", n_jobs=1).fit(people(0))
    asked = table(["smith", "smith", "rare1", "rare1", "never seen", "never seen"])
    paired = linker.candidates(asked)
    p = {(int(a), int(b)): q for a, b, q in zip(paired.left, paired.right, linker.predict_proba(paired), strict=True)}
    assert p[0, 1] < 0.1 < p[2, 3] == p[4, 5]
    assert "rarity(f): equal, about 1 in 16" in str(linker.explain(asked, 2, 3))
    linker.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(paired), linker.predict_proba(paired))


def test_a_file_with_impossible_counts_is_refused(tmp_path: Path):
    kf.Linker(["rarity(f)"], training="local", n_jobs=1).fit(people(0)).save(tmp_path / "m")
    file = read_model_file(tmp_path / "m")
    file.arrays["statistics.0.counts"] = file.arrays["statistics.0.counts"] * 0 + 1
    write_model_file(tmp_path / "m", file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError, match="counts from 2"):
        kf.load_model(tmp_path / "m")


def test_the_best_of_a_rarity_is_no_question():
    with pytest.raises(SettingError, match="one number"):
        kf.BestOf(Rarity("f"))
