"""Days between two dates, however they are written; whether the day or the month comes first is learned and told."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Comparison, Items, Statistics, as_column, texts_of

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
# English, German, French and Spanish, without accents; of the first the first three letters will do
_NAMES = "january february march april may june july august september october november december".split()
_OTHERS = (
    "januar februar marz april mai juni juli august september oktober november dezember",
    "jan feb mrz apr mai jun jul aug sep okt nov dez",
    "janner feber maerz apr mai jun jul aug sept okt nov dez",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "janv fevr mars avr mai juin juil aout sept oct nov dec",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ene feb mar abr may jun jul ago sept oct nov dic",
)
MONTHS = {word: i for names in (_NAMES, *map(str.split, _OTHERS)) for i, word in enumerate(names, 1)}
MONTHS |= {name[:3]: i for i, name in enumerate(_NAMES, 1)}
PIVOT = 69  # a year of two digits is 19.. from here on, 20.. below, as in strptime
LONGEST = 100  # characters of a date
DIGIT = re.compile(r"\d")
# ways to write a date; of `first` and `second` one is the month: which of them, the other dates of the column show
YEAR_LAST = re.compile(r"(?P<first>\d{1,2})(?P<sign>[-/.])(?P<second>\d{1,2})\2(?P<year>\d{4}|\d\d)(?: .*)?")
OF = "(?:of |del? )?"
DATES = (
    re.compile(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:[t ].*)?"),
    re.compile(r"(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?:[t ].*)?"),
    YEAR_LAST,
    # 3 March 1999, 3-Mar-99, 03MAR1999, 3rd of March 1999, 3 de marzo de 1999
    re.compile(
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|(?:er|o)(?= ))?[-./ ]*{OF}(?P<month>[a-z]+)"
        rf"\.?,?[-./ ]*{OF}(?P<year>\d{{4}}|\d\d)"
    ),
    # March 3, 1999
    re.compile(r"(?P<month>[a-z]+)\.? +(?P<day>\d{1,2})(?:st|nd|rd|th)?,? +(?P<year>\d{4}|\d\d)"),
    re.compile(r"(?P<year>\d{4})[-./ ]+(?P<month>[a-z]+)\.?,?[-./ ]+(?P<day>\d{1,2})"),  # 1999-Mar-03
    re.compile(r"(?P<year>\d{4})年 ?(?P<month>\d{1,2})月(?: ?(?P<day>\d{1,2})日)?"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})"),  # 1999-03
    re.compile(rf"(?P<month>\d{{1,2}}|[a-z]+)\.?,?[-/ ]+{OF}(?P<year>\d{{4}})"),  # 3/1999, March 1999
)
# what may stand around a date: the day of the week or an article before it, a time of day after it
WEEKDAY = re.compile(
    r"^(?:(?:the|le|el|am) )?"
    r"(?:(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag"
    r"|mo|di|mi|do|fr|sa|so|lun(?:di|es)?|mar(?:di|tes)?|mer(?:credi)?|mie(?:rcoles)?|jeu(?:di)?|jue(?:ves)?"
    r"|ven(?:dredi)?|vie(?:rnes)?|sam(?:edi)?|sab(?:ado)?|dim(?:anche)?|dom(?:ingo)?)\.?,? )?(?:(?:the|den|der|le) )?"
)
TIME = re.compile(r"[ ,]+(?:at )?\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?:[ap]\.?m\.?)? ?(?:z|utc|gmt|[-+]\d\d:?\d\d)?")


@dataclass(frozen=True)
class DateDifference(Comparison):
    """Days between two dates, whichever is the earlier; what is no date is missing.

    A date that names a month alone (1999-12, 12/1999, Dec 1999) is compared by the month: both count as the first day
    of theirs. Years of two digits lie between 1969 and 2068.

    format   as in strptime. None: 1999-12-31 (with or without a time), 19991231, 31.12.1999, 31 Dec 1999, 31-Dec-99,
             31DEC1999, Fri 31st of December 1999, December 31, 1999, 1999-Dec-31, 31. Dezember 1999 and the like in
             French and Spanish, 1999年12月31日. In 1/2/1999 the first number is the day if, in training, one above 12
             stands there more often than in the second place, else the month; training says which it is in its log,
             with a warning where no date shows it, and explanations of such dates do. A comparison that has not
             learned it looks at the items at hand. With full stops it is the day, and a number above 12 is one
             anywhere.
    """

    format: str | None = None
    day_first: bool | None = field(default=None, init=False, repr=False, compare=False)
    SETTINGS: ClassVar[tuple[str, ...]] = ("format",)

    def __post_init__(self) -> None:
        if self.format is not None and (not isinstance(self.format, str) or "%" not in self.format):
            raise SettingError("format", self.format, "like '%d/%m/%Y' or None", owner="DateDifference")
        super().__post_init__()

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, normalise=False)
        days, months, whole = dates_of(texts.values, self.format, self.day_first).T.copy()

        def answer(left: Items, right: Items) -> Array:
            a, b = texts.codes[left], texts.codes[right]  # -1 is the last
            by_day = whole[a] * whole[b] == 1
            apart = np.where(by_day, days[a] - days[b], months[a] - months[b])
            return as_column(np.abs(apart))

        return answer

    def learn(self, items: Mentions) -> Self:
        if self.format is not None:
            return self
        order = Order.of(texts_of(items, self.fields, normalise=False).values)
        self._tell(order)
        return self._knowing(day_first=order.day_first)

    def _tell(self, order: Order) -> None:
        if not order.open:
            return
        several = f"{order.open} dates such as {order.example} can be read in two ways"
        if order.days == order.months:
            shown = (
                f"{order.days} others show the one, {order.months} the other" if order.days else "no other shows which"
            )
            remedy = f"the month is taken to come first; if not, say so: date_difference({self.field}, %d/%m/%Y)"
            log.warning("%s: %s, and %s; %s", self.name, several, shown, remedy)
        else:
            first, most, least = ("month", order.months, order.days)
            if order.day_first:
                first, most, least = ("day", order.days, order.months)
            told = f"the {first} comes first, as {most} others show ({least} show the contrary)"
            log.info("%s: %s; %s", self.name, several, told)

    def notes(self, items: Mentions, low: int, high: int) -> tuple[str, ...]:
        """How a date of two readings is read."""
        if self.format is not None:
            return ()
        texts = texts_of(items, self.fields, normalise=False)
        first = Order.of(texts.values).day_first if self.day_first is None else self.day_first
        shown = dict.fromkeys(texts.values[texts.codes[i]] for i in (low, high) if texts.codes[i] >= 0)
        return tuple(
            f"{self.field}: {text} is read as {_day(text, first)}, as in this column the "
            f"{'day' if first else 'month'} comes first"
            for text in shown
            if _is_open(_form(text))
        )

    def statistics(self) -> Statistics | None:
        return None if self.day_first is None else Statistics({"day_first": self.day_first}, {}, {})

    def with_statistics(self, kept: Statistics) -> Self:
        return self._knowing(day_first=bool(kept.numbers["day_first"]))


class Date(NamedTuple):
    """A day and the first of its month, counted from a fixed day; and whether the day is known: 1, or 0 for a month."""

    day: float
    month: float
    whole: float = 1.0


NO_DATE = Date(float("nan"), float("nan"))


def dates_of(texts: Sequence[str], format: str | None = None, day_first: bool | None = None) -> Array:
    """float64 (n + 1, 3), a `Date` for each text, NaN where it names none; the last, for code -1, is none."""
    if format is not None:
        found = [_by_format(text.strip(), format) for text in texts]
    else:
        first = Order.of(texts).day_first if day_first is None else day_first
        out = np.full((len(texts) + 1, 3), NO_DATE)
        usual, out[:-1] = _of_digits(texts)
        for i in np.flatnonzero(~usual).tolist():
            out[i] = _date(texts[i], first)
        return out
    return np.array([*found, NO_DATE])


def _of_digits(texts: Sequence[str]) -> tuple[NDArray[np.bool_], Array]:
    """Which texts are written 19991231 or 1999-12-31 (or with / or .), most of most columns; and what `_date` makes of
    these, for all at once."""
    usual, out = np.zeros(len(texts), bool), np.full((len(texts), 3), NO_DATE)
    for size in (8, 10):
        rows = np.array([i for i, text in enumerate(texts) if len(text) == size and text.isascii()], np.int64)
        letters = np.frombuffer("".join([texts[i] for i in rows.tolist()]).encode("ascii"), np.uint8)
        letters = letters.reshape(-1, size)
        if size == 10:
            signs = letters[:, 4]
            divided = (signs == letters[:, 7]) & np.isin(signs, np.frombuffer(b"-/.", np.uint8))
            rows, letters = rows[divided], letters[divided][:, [0, 1, 2, 3, 5, 6, 8, 9]]
        digits = letters - np.uint8(ord("0"))
        whole = (digits <= 9).all(axis=1)
        rows, digits = rows[whole], digits[whole].astype(np.int64)
        year, month, day = (digits[:, a:b] @ 10 ** np.arange(b - a)[::-1] for a, b in ((0, 4), (4, 6), (6, 8)))
        months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
        begin, end = (one.astype("datetime64[D]").astype(np.int64) for one in (months, months + 1))
        real = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= end - begin)
        begin += date(1970, 1, 1).toordinal()
        usual[rows] = True
        out[rows[real]] = np.stack([begin + day - 1, begin, np.ones_like(day)], axis=1)[real]
    return usual, out


# -- which number is the month -------------------------------------------------------------------------


class Order(NamedTuple):
    """How many dates like 31/1/1999 there are, like 1/31/1999, and of two readings like 1/2/1999; one of these."""

    days: int
    months: int
    open: int
    example: str

    @property
    def day_first(self) -> bool:
        return self.days > self.months

    @classmethod
    def of(cls, texts: Sequence[str]) -> Order:
        days = months = count = 0
        example = ""
        for found in map(_form, texts):
            if found is None or found["sign"] == ".":
                continue
            first, second = int(found["first"]), int(found["second"])
            days += first > 12 >= second
            months += second > 12 >= first
            if _is_open(found):
                count += 1
                example = example or found[0]
        return cls(days, months, count, example)


def _form(text: str) -> re.Match[str] | None:
    return YEAR_LAST.fullmatch(text.strip()) if len(text) <= LONGEST else None


def _is_open(found: re.Match[str] | None) -> bool:
    if found is None or found["sign"] == ".":
        return False
    first, second = int(found["first"]), int(found["second"])
    return first != second and 0 < first <= 12 and 0 < second <= 12


def _day(text: str, day_first: bool) -> str:
    return date.fromordinal(int(_date(text, day_first).day)).isoformat()


# -- one date -----------------------------------------------------------------------------------------


def _by_format(text: str, format: str) -> Date:
    try:
        found = datetime.strptime(text, format)
    except ValueError:
        return NO_DATE
    return _made(found.year, found.month, found.day)


def _date(text: str, day_first: bool) -> Date:
    if len(text) > LONGEST or DIGIT.search(text) is None:
        return NO_DATE
    plain = _plain(text)
    found = _match(plain)
    if found is None and (after := WEEKDAY.sub("", plain, count=1)) != plain:
        found = _match(after)
    if found is None:
        return NO_DATE
    parts = found.groupdict()
    if "first" in parts:
        ends = [int(parts["first"]), int(parts["second"])]
        is_day = ends[1] <= 12 and (day_first or parts["sign"] == "." or ends[0] > 12)
        parts["day"], parts["month"] = ends if is_day else ends[::-1]
    year, month = int(parts["year"]), parts["month"]
    if len(parts["year"]) == 2:
        year += 1900 if year >= PIVOT else 2000
    return _made(year, MONTHS.get(month, month), parts.get("day"))


def _plain(text: str) -> str:
    """Small letters, no accents, one blank between words, no time of day at the end."""
    plain = text.strip().lower()
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    plain = " ".join(plain.split())
    after = TIME.search(plain) if ":" in plain else None
    return plain[: after.start()] if after is not None and after.end() == len(plain) else plain


def _match(text: str) -> re.Match[str] | None:
    return next(filter(None, (pattern.fullmatch(text) for pattern in DATES)), None)


def _made(year: int, month: Any, day: Any) -> Date:
    try:
        first = date(year, int(month), 1).toordinal()
        whole = first if day is None else date(year, int(month), int(day)).toordinal()
    except ValueError:  # a thirteenth month, or a word that is none
        return NO_DATE
    return Date(float(whole), float(first), float(day is not None))
