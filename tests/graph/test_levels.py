"""Explanations level by level: effects, orders and the text, from plain arrays."""

from __future__ import annotations

import numpy as np
import pytest

from kinfolk.graph.page import LABEL, PREDICTION, Aggregate, Neighbour, level_answer, node_explanation

CLASSES = ("ant", "bee", "cat")


def told(name: str, without: list[float], values: list[float] | None = None) -> Aggregate:
    return Aggregate(name, "predictions", CLASSES, np.array(values or [2.0, 0.0, 0.5]), np.array(without))


def neighbour(node: int, relation: str, last: list[float], source: str = PREDICTION) -> Neighbour:
    return Neighbour(node, f"n{node}", relation, 1.0, np.array([[1.0, 0.0, 0.0], last]), source)


def test_an_effect_is_the_difference_of_two_predictions() -> None:
    level = level_answer(
        "level 1", np.array([0.7, 0.2, 0.1]), 0, [told("mean(r)", [0.9, 0.1, 0.0])], np.array([0.5] * 3)
    )
    assert level.aggregates[0].effect == pytest.approx(-0.2)
    assert level.together == pytest.approx(0.2)


def test_the_greatest_effect_comes_first_whatever_its_sign() -> None:
    given = [told("a", [0.6, 0.4, 0.0]), told("b", [0.95, 0.05, 0.0]), told("c", [0.7, 0.3, 0.0])]
    level = level_answer("level 1", np.array([0.7, 0.2, 0.1]), 0, given)
    assert [one.name for one in level.aggregates] == ["b", "a", "c"]
    assert level.together is None and level.without_all is None


def test_effects_are_on_the_answer_also_where_a_level_says_other() -> None:
    level = level_answer("level 1", np.array([0.7, 0.2, 0.1]), 1, [told("a", [0.9, 0.05, 0.05])])
    assert level.aggregates[0].effect == pytest.approx(0.15)


def test_neighbours_go_by_relation_then_by_how_sure_they_were() -> None:
    around = [
        neighbour(1, "r", [0.5, 0.5, 0.0]), neighbour(2, "s", [1.0, 0.0, 0.0]), neighbour(3, "r", [0.1, 0.9, 0.0]),
        neighbour(4, "r", [0.4, 0.6, 0.0], LABEL),
    ]  # fmt: skip
    answer = node_explanation(0, "n0", CLASSES, 0, [level_answer("level 0", np.array([0.7, 0.2, 0.1]), 0)], around)
    assert [one.node for one in answer.neighbours] == [4, 3, 1, 2]
    assert [one.known for one in answer.neighbours] == [True, False, False, False]
    assert (answer.label, answer.probability) == ("ant", 0.7)


def test_the_text_tells_the_whole_story() -> None:
    levels = [
        level_answer("own features alone", np.array([0.2, 0.7, 0.1]), 0),
        level_answer(
            "level 1", np.array([0.8, 0.1, 0.1]), 0,
            [told("count(r)", [0.3, 0.6, 0.1]), told("max(r)", [0.8, 0.1, 0.1], [0.0, 0.0, 0.0])],
            np.array([0.1, 0.8, 0.1]),
        ),
    ]  # fmt: skip
    around = [neighbour(i, "r", [0.9, 0.1, 0.0]) for i in range(1, 15)]
    text = str(node_explanation(0, "n0", CLASSES, 0, levels, around)).splitlines()
    assert text[0] == "n0: ant with probability 0.800"
    assert text[1] == "  own features alone: bee 0.700, ant 0.200, cat 0.100"
    assert text[3] == "    +0.500  count(r) gave ant 2, cat 0.5; without it bee 0.600"
    assert text[4] == "    +0.000  max(r) gave nothing; without it ant 0.800"
    assert text[5] == "    +0.700  all of these together; without any of them bee 0.800"
    assert text[6] == "  14 neighbours, and their last votes"
    assert text[7] == "    n1   r: ant 0.900, predicted" and text[-1] == "    ..."


def test_the_text_of_a_node_alone() -> None:
    answer = node_explanation(
        0, "n0", CLASSES, 1, [level_answer("own features alone", np.array([0.2, 0.7, 0.1]), 1)], []
    )
    assert str(answer).splitlines()[-1] == "  no neighbours"
