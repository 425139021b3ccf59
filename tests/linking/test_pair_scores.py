"""Pairs with both records in a row: each has the probability it has among others, in any batch and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, SettingError

FIELDS = ["given_name", "surname", "street_number", "address", "suburb", "postcode", "state", "date_of_birth",
          "id_number"]  # fmt: skip
RULES = ["key(postcode)", "key(surname[:2])"]
FEATURES = ["jaro_winkler(surname)", "edit(given_name)", "rarity(surname)", "tfidf_cosine(address + suburb)",
            "token_overlap(address, containment)", "number_difference(street_number)", "numbers(address)",
            "date_difference(date_of_birth, %Y%m%d)", "shared_codes(id_number)", "exact(state)",
            "any_of(exact(postcode), ;)"]  # fmt: skip


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    return kf.Linker(FEATURES, blocking=RULES, n_jobs=1).fit(kf.generate_customers(300, seed=1))


@pytest.fixture(scope="module")
def known(linker: kf.Linker) -> tuple[dict[str, list[Any]], np.ndarray[Any, Any]]:
    """Candidate pairs of other customers, side by side, and what they have among all."""
    items = linker.candidates(kf.generate_customers(120, seed=2))
    texts = {name: items.columns[name].strings() for name in FIELDS}
    pairs = {f"{name}{end}": [texts[name][k] for k in side]
             for end, side in (("_l", items.left), ("_r", items.right)) for name in FIELDS}  # fmt: skip
    return pairs, linker.predict_proba(items)


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_every_comparison_says_the_same_of_a_pair_in_any_piece_of_the_table(
    linker: kf.Linker, known: Any, data: st.DataObject
):
    pairs, probability = known
    rows = data.draw(st.lists(st.integers(0, len(probability) - 1), max_size=40))
    piece = {name: [values[k] for k in rows] for name, values in pairs.items()}
    found = linker.score_pairs(piece)
    assert list(found) == [*pairs, "probability"]
    np.testing.assert_allclose(found["probability"], probability[rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_the_table_comes_back_as_it_came(linker: kf.Linker, known: Any, kind: str):
    pairs, probability = known
    if kind == "pandas":
        library = pytest.importorskip("pandas", reason="pandas is not installed")
        frame = library.DataFrame(pairs, index=range(7, 7 + len(probability)))
    else:
        library = pytest.importorskip("polars" if kind == "polars" else "pyarrow", reason=f"{kind} is not installed")
        frame = library.DataFrame(pairs) if kind == "polars" else library.table(pairs)
    found = linker.score_pairs(frame, probability="match")
    assert type(found) is type(frame)
    np.testing.assert_allclose(np.asarray(found["match"]), probability, rtol=0, atol=1e-12)
    if kind == "pandas":
        assert list(found.index) == list(frame.index)


def test_what_lacks_a_side_and_what_looks_at_other_pairs_is_refused(linker: kf.Linker, known: Any):
    pairs, _ = known
    with pytest.raises(InputError, match="no column 'surname_r'"):
        linker.score_pairs({name: values for name, values in pairs.items() if name != "surname_r"})
    with pytest.raises(SettingError, match="two endings"):
        linker.score_pairs(pairs, suffixes=("_l", "_l"))
    train = kf.generate_customers(100, seed=1)
    ranking = kf.Linker(FEATURES, blocking=RULES, training="ranking", n_jobs=1).fit(train)
    with pytest.raises(SettingError, match="to score single pairs"):
        ranking.score_pairs(pairs)
    wide = kf.Linker([*FEATURES, "best_of(tfidf_cosine(address))"], blocking=RULES, n_jobs=1).fit(train)
    with pytest.raises(SettingError, match="without best_of"):
        wide.score_pairs(pairs)
