"""Ask and tell: the loop that asks for labels, with answers that are simulated."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from pathlib import Path

import pytest

import kinfolk as kf
import label_world
from kinfolk.errors import InputError, SettingError
from kinfolk.linking import unlabelled
from label_world import COMPARED, RULES, truth


@pytest.fixture(scope="module")
def people() -> kf.Mentions:
    return label_world.people()


@pytest.fixture(scope="module")
def start() -> kf.Linker:
    return label_world.start()


def answered(loop: kf.ActiveLinker, times: int) -> list[tuple[str, str]]:
    asked = []
    for _ in range(times):
        question = loop.ask()
        assert question is not None
        asked.append((question.left, question.right))
        loop.tell(question, truth(question.left, question.right))
    return asked


def test_answers_teach_and_no_pair_is_asked_twice(people, start) -> None:
    loop = kf.ActiveLinker(start, people)
    asked = answered(loop, 40)
    assert len({*asked}) == 40 and loop.updates >= 3
    assert loop.linker.score(people) >= start.score(people) - 0.01
    assert sum(loop.counts.values()) == 40 and min(loop.counts["yes"], loop.counts["no"]) > 5
    estimate = loop.estimate()
    assert estimate is not None and 0 <= estimate.lower <= estimate.f1 <= estimate.upper <= 1
    assert estimate.answers == 40


def test_few_answers_give_no_estimate(people, start) -> None:
    """A model of its own opinion would be sure of itself."""
    loop = kf.ActiveLinker(start, people, every=100)
    assert loop.estimate() is None
    assert loop.estimate_in_words() == "an estimate needs 10 answers of yes or no; there are 0"
    answered(loop, 9)
    loop.tell(loop.ask(), None)
    assert loop.estimate() is None
    assert loop.estimate_in_words() == "an estimate needs 10 answers of yes or no; there are 9"
    answered(loop, 1)
    assert loop.estimate_in_words() == str(loop.estimate()) and "from 10 answers" in str(loop.estimate())


def test_a_good_model_stays_until_answers_make_a_better_one(people) -> None:
    """Few labels alone would make a far worse one; with all answers at hand the given one is left."""
    good = kf.Linker(COMPARED, blocking=RULES, n_jobs=1).fit(people)
    loop = kf.ActiveLinker(good, people, every=5)
    for _ in range(3):
        answered(loop, 5)
        assert loop.linker.score(people) > good.score(people) - 0.02
    assert loop.updates >= 1


def test_a_bad_model_goes_when_answers_make_a_better_one(people, start) -> None:
    bad = copy.copy(start)
    bad.weights_ = -0.2 * start.weights_
    loop = kf.ActiveLinker(bad, people)
    answered(loop, 60)
    assert loop.linker is not bad and loop.linker.score(people) > bad.score(people)
    again = kf.Linker(COMPARED, blocking=RULES, n_jobs=1).fit(replace(people, clusters=None), pairs=loop.labels)
    assert again.predict(people).tolist() == loop.linker.predict(people).tolist()


def test_the_same_seed_asks_the_same(people, start) -> None:
    one, other = (answered(kf.ActiveLinker(start, people), 15) for _ in range(2))
    assert one == other
    assert answered(kf.ActiveLinker(start, people, random_state=7), 15) != one


def test_a_question_stays_until_it_is_answered_and_shows_both_records(people, start) -> None:
    loop = kf.ActiveLinker(start, people)
    question = loop.ask()
    assert question is loop.ask() and question is not None
    assert [one.name for one in question.fields] == list(people.columns)
    column = people.columns["surname"]
    shown = next(one for one in question.fields if one.name == "surname")
    assert shown.left == column.strings()[people.number(question.left)]
    assert shown.differs == (shown.left != shown.right)
    assert "".join(text for text, _ in shown.pieces[0]) == (shown.left or "")
    assert question.left in str(question) and question.why
    loop.tell(question, None)
    assert loop.ask() != question and loop.counts == {"yes": 0, "no": 0, "unsure": 1}


def test_back_takes_the_last_answer_back_and_asks_again(people, start, tmp_path: Path) -> None:
    loop = kf.ActiveLinker(start, people, tmp_path / "labels.csv")
    assert loop.back() is None
    first, second = loop.ask(), None
    loop.tell(first, True)
    second = loop.ask()
    loop.tell(second, False)
    again = loop.back()
    assert again is not None and (again.left, again.right) == (second.left, second.right) and loop.ask() is again
    before = loop.back()
    assert before is not None and (before.left, before.right) == (first.left, first.right)
    assert loop.labels == {"left": [], "right": [], "match": []}
    loop.tell(before, False)
    loop.close()
    assert (tmp_path / "labels.csv").read_text().splitlines()[1:] == [
        line for line in (tmp_path / "labels.csv").read_text().splitlines()[1:] if ",no," in line
    ]


def test_it_goes_on_where_it_stopped(people, start, tmp_path: Path) -> None:
    """The answers of a file, a pair that nobody asked about, and the model that follows from them."""
    with kf.ActiveLinker(start, people, tmp_path / "labels.csv") as loop:
        asked = answered(loop, 30)
        labels, model = loop.labels, loop.linker.predict(people).tolist()
    with kf.ActiveLinker(start, people, tmp_path / "labels.csv") as loop:
        assert loop.labels == labels
        assert loop.linker.predict(people).tolist() == model
        assert not {*answered(loop, 10)} & {*asked}


def test_the_same_pair_told_twice_has_the_last_answer(people, start, tmp_path: Path) -> None:
    with kf.ActiveLinker(start, people, tmp_path / "labels.csv") as loop:
        question = loop.ask()
        loop.tell(question, True)
        loop.tell((question.right, question.left), False)
        assert loop.labels["match"] == [False]
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 2


def test_answers_that_follow_from_others_are_not_asked(people, start) -> None:
    people = people.take(range(120))
    loop = kf.ActiveLinker(start, people, every=10**9)
    a, b, c = (people.name(i) for i in (0, 1, 2))
    loop.tell((a, b), True)
    loop.tell((b, c), False)
    while (question := loop.ask()) is not None:
        assert {question.left, question.right} != {a, c}
        loop.tell(question, None)
    assert len(loop.labels["left"]) > 500  # all that are compared, to the last


def test_only_yes_keeps_the_model_and_says_why(people, start, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost; the next answers may say no."""
    loop = kf.ActiveLinker(start, people, every=3)
    with caplog.at_level(logging.WARNING, "kinfolk"):
        for _ in range(3):
            loop.tell(loop.ask(), True)
    if loop.updates == 0:
        assert loop.linker is start and "label candidates that are no matches too" in caplog.text
    assert loop.counts["yes"] == 3 and loop.ask() is not None


def test_what_fields_say_without_labels_is_worked_out_once(people, start, monkeypatch) -> None:
    """Every model of the loop is the one that a fit of its own would give, to the last bit."""
    counted = []
    whole = unlabelled.fellegi_sunter
    monkeypatch.setattr(unlabelled, "fellegi_sunter", lambda *given: counted.append(1) or whole(*given))
    loop = kf.ActiveLinker(kf.Linker(COMPARED, blocking=RULES, n_jobs=1), people, every=5)
    bare = replace(people, clusters=None)
    for _ in range(3):
        answered(loop, 5)
        assert len(counted) == 1
        alone = kf.Linker(COMPARED, blocking=RULES, n_jobs=1).fit(bare, pairs=loop.labels)
        assert counted.pop() and loop.linker.weights_.tobytes() == alone.weights_.tobytes()
        assert loop.linker.predict(bare).tolist() == alone.predict(bare).tolist()
    assert loop.updates == 3


def test_the_model_is_trained_in_the_background(people, start) -> None:
    loop = kf.ActiveLinker(start, people, background=True)
    answered(loop, 10)
    loop.tell(loop.ask(), None)
    loop.close()
    assert not loop.updating and loop.counts["unsure"] == 1


def test_a_failure_in_the_background_is_told_and_questions_go_on(people, start, monkeypatch, caplog) -> None:
    loop = kf.ActiveLinker(start, people, every=1, background=True)
    monkeypatch.setattr(kf.Linker, "_fit", lambda *given, **named: 1 / 0)
    with caplog.at_level(logging.ERROR, "kinfolk"):
        loop.tell(loop.ask(), True)
        loop.close()
    assert "training failed: division by zero" in caplog.text
    assert loop.linker is start and loop.ask() is not None


def test_two_tables_are_asked_about_across() -> None:
    everybody = kf.generate_customers(200, seed=5)
    half = [{name: [] for name in ("id", *everybody.columns)} for _ in range(2)]
    for i in range(everybody.n_items):
        side = half[i % 2]
        side["id"].append(everybody.name(i))
        for name, column in everybody.columns.items():
            side[name].append(column.strings()[i])
    both = kf.records_from_frames(*half)
    known = kf.records_from_frames(*half, cluster_from_id="febrl")
    model = kf.Linker(COMPARED, blocking=RULES, n_jobs=1).fit(known)
    loop = kf.ActiveLinker(model, both)
    question = loop.ask()
    assert both.number(question.left) < both.first_table <= both.number(question.right)
    with pytest.raises(InputError, match="are in one table"):
        loop.tell((both.name(0), both.name(1)), True)


def test_records_without_names_have_numbers(people, start) -> None:
    loop = kf.ActiveLinker(start, replace(people, names=None))
    question = loop.ask()
    loop.tell(question, True)
    loop.tell((0, 1), False)
    assert loop.labels["left"] == [question.left, "0"] and question.left.isdigit()


def test_what_is_wrong_is_told(people, start, tmp_path: Path) -> None:
    loop = kf.ActiveLinker(start, people)
    with pytest.raises(InputError, match="no record has the id 'nobody'; ids look like 'rec-"):
        loop.tell(("nobody", people.name(0)), True)
    with pytest.raises(InputError, match="two different records"):
        loop.tell((people.name(0), people.name(0)), True)
    with pytest.raises(InputError, match="expected a question, or the ids of two records"):
        loop.tell((people.name(0),), True)
    with pytest.raises(InputError, match=r"expected True, False or None \(unsure\), got 'yes'"):
        loop.tell(loop.ask(), "yes")
    with pytest.raises(SettingError, match=r"every.*whole number of 1 or more; got 0"):
        kf.ActiveLinker(start, people, every=0)
    with pytest.raises(SettingError, match="takes a Linker; got NoneType"):
        kf.ActiveLinker(None, people)
    with pytest.raises(InputError, match="no pair to ask about in a table of one record"):
        kf.ActiveLinker(start, people.take([0]))
    with pytest.raises(SettingError, match="'local' or 'structured' to learn from labelled pairs"):
        kf.ActiveLinker(kf.Linker(training="ranking"), people)
    assert loop.labels["left"] == []
