"""A trained linker says itself: in plain values, from which its answers can be worked out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.errors import NotFittedError

PEOPLE = {
    "id": [f"r{i}" for i in range(8)],
    "name": ["Ann Lee", "Bob Roy", "Anne Lee", "Cora May", "Rob Roy", "Cora Mai", "Ben Fox", "Ann Poe"],
    "town": ["York", "Bath", "York", "Hull", "Bath", None, "York", "Bath"],
    "who": [0, 1, 0, 2, 1, 2, 3, 4],
}


def trained(**settings: Any) -> tuple[kf.Linker, kf.Mentions]:
    items = kf.records_from_frames(PEOPLE, cluster="who")
    return kf.Linker(["jaro_winkler(name)", "exact(town)"], n_jobs=1, **settings).fit(items), items


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rules": "never(town)"},
        {"conjunctions": "all"},
        {"training": "combined"},
        {"blocking": "rare(name, 50)", "folds": 2},
    ],
)
def test_it_goes_through_json_and_a_file(settings: dict[str, Any], tmp_path: Path):
    linker, _ = trained(**settings)
    told = linker.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    linker.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m").to_dict()
    for part in ("comparisons", "conjunctions", "blocking", "rules", "clusterer", "base"):
        assert again[part] == told[part]


@pytest.mark.parametrize("conjunctions", [None, "all"])
def test_the_log_odds_of_every_pair_follow_from_it(conjunctions: Any):
    linker, items = trained(conjunctions=conjunctions)
    told, paired = linker.to_dict(), linker.candidates(items)
    levels = {f"{one['name']}: {lv['level']}": lv for one in told["comparisons"] for lv in one["levels"]}
    levels |= {lv["level"]: lv for one in told["conjunctions"] for lv in one["levels"]}
    for a, b, score in zip(paired.left.tolist(), paired.right.tolist(), linker.decision_function(paired), strict=True):
        on = [levels[one.feature] for one in linker.explain(items, a, b).contributions]
        assert sum(level["weight"] for level in on) == pytest.approx(score)
        assert told["base"] + sum(level["difference"] for level in on) == pytest.approx(score)


def test_every_level_has_its_weight_and_share():
    linker, items = trained(blocking="rare(name, 50)")
    told = linker.to_dict()
    assert [one["name"] for one in told["comparisons"]] == ["jaro_winkler(name)", "exact(town)"]
    assert told["comparisons"][1]["comparison"] == kf.Exact("town").spec()
    for one in told["comparisons"]:
        assert one["levels"][0]["level"] == "missing"
        assert sum(level["share"] for level in one["levels"]) == pytest.approx(1.0)
    weights = [level["weight"] for one in told["comparisons"] for level in one["levels"]]
    np.testing.assert_allclose(weights, linker.weights_)
    assert told["blocking"] == ["rare(name, 50)"] and told["clusterer"]["name"] == type(linker.clusterer_).__name__
    assert told["training"]["way"] == "structured" and told["settings"]["bins"] == 8
    assert linker.candidates(items).n_pairs > 0


def test_one_that_was_not_trained_has_nothing_to_say():
    with pytest.raises(NotFittedError):
        kf.Linker().to_dict()
