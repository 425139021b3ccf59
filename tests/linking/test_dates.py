"""Dates in many forms; which number is the month is learned from the column, and told."""

from __future__ import annotations

import logging
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.linking.dates import Order, _date, _of_digits, dates_of

DAY = date(1999, 3, 3)
GERMAN = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
FRENCH = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split()
SPANISH = "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()


def table(values: list[Any]) -> kf.Mentions:
    none = np.empty(0, np.int32)
    return kf.Mentions({"born": values}, np.zeros(len(values), np.int32), none, none)


@pytest.mark.parametrize(
    "text",
    [
        "Wed 3 Mar 1999", "Wednesday, 3 March 1999", "Wed, Mar 3, 1999", "3rd of March 1999", "the 3rd of March, 1999",
        "03MAR1999", "3mar99", "1999-Mar-03", "1999 March 3", "3. März 1999", "Mittwoch, den 3. März 1999",
        "3 mars 1999", "le mercredi 3 mars 1999", "3 de marzo de 1999", "miércoles, 3 de marzo de 1999", "3.3.1999",
        "1999-03-03T23:59:59.123Z", "1999-03-03 23:59+01:00", "3 Mar 1999 11:30 PM", "March 3, 1999 at 7:05",
        "Wed, 03 Mar 1999 10:11:12 +0100", "3/3/1999 10:00", "1999年3月3日", "19990303T101112Z", "3  March   1999",
    ],
)  # fmt: skip
def test_forms(text: str):
    assert dates_of([text])[0].tolist() == [DAY.toordinal(), DAY.replace(day=1).toordinal(), 1.0]


@given(st.dates(date(1969, 1, 1), date(2068, 12, 31)), st.sampled_from([GERMAN, FRENCH, SPANISH]))
def test_every_day_in_four_languages(day: date, names: list[str]):
    name, english = names[day.month - 1], f"{day:%B}"
    theirs = [
        f"{day.day}. {name} {day.year}",
        f"{day.day} {name.upper()} {day.year}",
        f"{day.day} de {name} de {day.year}",
    ]
    ours = [f"{day:%a} {day.day} {english[:3]} {day.year}", f"{day:%d%b%Y}", f"{english} {day.day}, {day.year}"]
    assert {*dates_of(theirs + ours)[:-1, 0].tolist()} == {day.toordinal()}


@pytest.mark.parametrize(
    "text",
    ["Wed", "3 of 1999", "the 1999", "3 Mar", "2021-W05", "10:30", "99", "3 mardi 1999", "x" * 500, "1999年"],
)
def test_what_is_no_date(text: str):
    assert np.isnan(dates_of([text])[0, 0])


@given(st.lists(st.tuples(st.integers(1, 31), st.integers(1, 31), st.sampled_from("/-.")), max_size=20))
def test_the_order_is_what_most_dates_of_one_reading_show(parts: list[tuple[int, int, str]]):
    order = Order.of([f"{a}{sign}{b}{sign}1999" for a, b, sign in parts])
    own = [(a, b) for a, b, sign in parts if sign != "."]
    assert order.days == sum(a > 12 and b <= 12 for a, b in own)
    assert order.months == sum(b > 12 and a <= 12 for a, b in own)
    assert order.open == sum(a <= 12 and b <= 12 and a != b for a, b in own)
    assert order.day_first == (order.days > order.months)


def test_training_tells_the_order(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "kinfolk")
    kf.DateDifference("born").learn(table(["1/2/1999", "31/1/1999", "30/1/1999", "1/31/1999"]))
    assert (
        "1 dates such as 1/2/1999 can be read in two ways; the day comes first, as 2 others show (1 show" in caplog.text
    )
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["1/2/1999", "3/4/1999"], "no other shows which"),
        (["1/2/1999", "31/1/1999", "1/31/1999"], "1 others show the one"),
    ],
)
def test_a_column_that_does_not_show_the_order_is_warned_of(
    values: list[str], told: str, caplog: pytest.LogCaptureFixture
):
    learned = kf.DateDifference("born").learn(table(values))
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert told in record.getMessage() and "date_difference(born, %d/%m/%Y)" in record.getMessage()
    assert learned.day_first is False


@pytest.mark.parametrize("values", [["1999-02-01", "2/2/1999"], ["1.2.1999"], [], [None]])
def test_nothing_is_told_where_nothing_is_open(values: list[Any], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "kinfolk")
    kf.DateDifference("born").learn(table(values))
    assert not caplog.records


def test_explanations_and_the_description_say_how_a_date_is_read(tmp_path: Path):
    rng = np.random.default_rng(0)
    days = [f"{rng.integers(1, 29)}/{rng.integers(1, 13)}/19{rng.integers(50, 99)}" for _ in range(40)]
    none = np.empty(0, np.int32)
    born = [day for day in days for _ in range(2)]
    items = kf.Mentions({"born": born}, np.zeros(80, np.int32), none, none, np.repeat(np.arange(40), 2))
    linker = kf.Linker(["date_difference(born)"], training="local", n_jobs=1).fit(items)
    linker.save(tmp_path / "m")
    for model in (linker, kf.load_model(tmp_path / "m")):
        answer = model.explain(table(["2/1/1999", "1999-01-02"]), 0, 1)
        assert answer.notes == ("born: 2/1/1999 is read as 1999-01-02, as in this column the day comes first",)
        assert "  note: born: 2/1/1999 is read" in str(answer)
        assert not model.explain(table(["22/1/1999", "1.2.1999"]), 0, 1).notes
        assert model.to_dict()["comparisons"][0]["learned"] == {"day_first": True}


@given(
    st.lists(st.dates().map(str) | st.from_regex(r"[012]\d{3}([-/.]?)[0-3]\d\1[0-3]\d", fullmatch=True)), st.booleans()
)
def test_dates_of_digits_are_read_all_at_once_as_one_by_one(texts: list[str], day_first: bool):
    texts = [*texts, *(text.replace("-", "") for text in texts), "19990229", "2000-02-29", "0000-01-01", "99991231"]
    texts += ["1999-03/03", "1999-3-03", "199903031", "1999x03x03", "１９９９０３０３", "1999-1-1 1"]
    usual, found = _of_digits(texts)
    assert usual[-10:].tolist() == [True] * 4 + [False] * 6
    wanted = np.array([_date(text, day_first) for text in texts])
    np.testing.assert_array_equal(found[usual], wanted[usual])
    np.testing.assert_array_equal(dates_of(texts, day_first=day_first)[:-1], wanted)


def test_columns_of_dates_are_written_out():
    moments = np.array(["1999-03-03T10:00", "NaT"], "datetime64[ns]")
    plain = [datetime(1999, 3, 3, 10), None]
    for column in (moments, plain, [date(1999, 3, 3), None]):
        items = kf.records_from_frames({"id": ["a", "b"], "born": column})
        assert items.columns["born"].strings() == ["1999-03-03", None]  # type: ignore[union-attr]
