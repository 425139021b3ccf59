"""Comparisons beside direct calls of rapidfuzz and plain Python, value by value; how they are written and chosen."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA
from rapidfuzz.distance import JaroWinkler as FuzzyJaroWinkler

from kinfolk.core.data import Column
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.linking.comparisons import (
    KINDS,
    Cosine,
    DateDifference,
    Edit,
    Exact,
    JaroWinkler,
    NumberDifference,
    Numbers,
    PairFunction,
    Rarity,
    SharedCodes,
    TfidfCosine,
    TokenOverlap,
    as_comparisons,
    default_comparisons,
    parse_comparison,
    rebuilt_comparison,
)
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import PairFeature, Texts, joint_codes, normalised, texts_of
from kinfolk.linking.tokens import bags_in, bags_of_ngrams


def records(**columns: Any) -> Mentions:
    """Items with the given columns: lists of strings and None, or of floats."""
    made = {
        name: np.array(values, np.float64)
        if any(isinstance(value, float) for value in values)
        else Column.from_strings(values)
        for name, values in columns.items()
    }
    n = len(next(iter(columns.values())))
    return Mentions(made, np.zeros(n, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))


def all_answers(feature: PairFeature, items: Mentions) -> list[list[float]]:
    """Answers for every ordered pair of items, in one call."""
    n = items.n_items
    left, right = (side.reshape(-1).astype(np.int32) for side in np.indices((n, n)))
    answers = feature.of(items)(left, right)
    assert answers.shape == (n * n, 1) and answers.dtype == np.float64
    return answers.reshape(n, n).tolist()


def assert_answers(feature: PairFeature, values: list[Any], expected: Any, **kwargs: Any) -> None:
    """expected(a, b) for two values that are there; None stands for NaN."""
    found = all_answers(feature, records(f=values))
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            wanted = None if a is None or b is None else expected(a, b)
            if wanted is None:
                assert math.isnan(found[i][j]), (a, b, found[i][j])
            else:
                assert found[i][j] == pytest.approx(wanted, abs=1e-6, **kwargs), (a, b)


TEXT = st.one_of(  # the last two: around the lengths at which kernels give way to rapidfuzz
    st.text("abc é'-1", max_size=12), st.text(max_size=5),
    st.text("abc", min_size=30, max_size=34), st.text("ab", min_size=60, max_size=70),
)  # fmt: skip
TEXTS = st.lists(st.none() | TEXT, min_size=1, max_size=8)


# -- against direct calls -----------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("kind", "scorer"), [(JaroWinkler, FuzzyJaroWinkler), (Edit, OSA)])
@given(values=TEXTS)
def test_strings_beside_rapidfuzz(kind: Any, scorer: Any, normalise: bool, values: list[str | None]):
    plain = normalised if normalise else str.strip

    def expected(a: str, b: str) -> float | None:
        return scorer.normalized_similarity(plain(a), plain(b)) if plain(a) and plain(b) else None

    assert_answers(kind("f", normalise=normalise), values, expected)


@given(values=TEXTS)
def test_exact(values: list[str | None]):
    def expected(a: str, b: str) -> float | None:
        return float(normalised(a) == normalised(b)) if normalised(a) and normalised(b) else None

    assert_answers(Exact("f"), values, expected)


@pytest.mark.parametrize("kind", ["jaccard", "containment"])
@given(values=TEXTS)
def test_token_overlap(kind: str, values: list[str | None]):
    def expected(a: str, b: str) -> float | None:
        one, two = set(normalised(a).split()), set(normalised(b).split())
        if not one or not two:
            return None
        return len(one & two) / (len(one | two) if kind == "jaccard" else min(len(one), len(two)))

    assert_answers(TokenOverlap("f", kind), values, expected)


def cosine(values: list[str | None], ngram: int | None) -> Any:
    """tf-idf cosine by dictionaries, with counts over `values`; what none of them has counts as if one had."""

    def bag(text: str) -> Counter[str]:
        padded = f" {text} "
        runs = [padded[i : i + ngram] for i in range(len(padded) - ngram + 1)] if ngram else text.split()
        return Counter(runs)

    bags = [bag(normalised(value)) for value in values if value is not None and normalised(value)]
    frequency = Counter(token for one in bags for token in one)

    def vector(text: str) -> dict[str, float]:
        share = {token: (1 + len(bags)) / (1 + max(frequency[token], 1)) for token in bag(normalised(text))}
        row = {token: count * (1 + math.log(share[token])) for token, count in bag(normalised(text)).items()}
        size = math.sqrt(sum(weight**2 for weight in row.values()))
        return {token: weight / size for token, weight in row.items()}

    def expected(a: str, b: str) -> float | None:
        if not normalised(a) or not normalised(b) or not bag(normalised(a)) or not bag(normalised(b)):
            return None
        one, two = vector(a), vector(b)
        return sum(weight * two.get(token, 0.0) for token, weight in one.items())

    return expected


@pytest.mark.parametrize("ngram", [None, 1, 3, 5, 10])
@given(values=TEXTS)
def test_tfidf(ngram: int | None, values: list[str | None]):
    assert_answers(TfidfCosine("f", ngram), values, cosine(values, ngram))


def test_tfidf_of_long_runs_of_many_characters():
    """More runs are possible than 64 bits can number: 200 letters, ten at a time."""
    letters = [chr(0x4E00 + k) for k in range(200)]
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(letters, 40)) for _ in range(6)]
    values: list[str | None] = [*texts, texts[0][:30] + texts[1][:12], texts[0][5:25]]
    assert_answers(TfidfCosine("f", 10), values, cosine(values, 10))


@pytest.mark.parametrize("ngram", [None, 1, 3])
@given(trained=TEXTS, values=TEXTS)
def test_tfidf_with_counts_of_training(ngram: int | None, trained: list[str | None], values: list[str | None]):
    learned = TfidfCosine("f", ngram).learn(records(f=trained))
    assert learned == TfidfCosine("f", ngram) and learned.columns == TfidfCosine("f", ngram).columns
    kept = learned.statistics()
    assert kept is not None
    assert_answers(TfidfCosine("f", ngram).with_statistics(kept), values, cosine(trained, ngram))


def test_tfidf_counts_entities_in_training():
    """The items of a true cluster are one, whatever they have; an item whose cluster is not known is one by itself."""
    texts = ["red fox", "red fox", "red owl", "red elk", "elk", None]
    items = Mentions(records(f=texts).columns, np.zeros(6, np.int32), [], [], clusters=[4, 4, 4, -1, -1, 0])
    once = ["red fox owl", "red elk", "elk"]
    asked = ["red fox", "red owl", "red elk", "elk gnu"]
    assert_answers(TfidfCosine("f").learn(items), asked, cosine(once, None))  # type: ignore[arg-type]


def test_tfidf_of_several_fields_is_that_of_the_text_put_together():
    items = records(a=["red fox", None, "x", None], b=["runs", "red fox runs", None, None])
    whole = records(f=["red fox runs", "red fox runs", "x", None])
    found, wanted = all_answers(TfidfCosine(["a", "b"]), items), all_answers(TfidfCosine("f"), whole)
    np.testing.assert_allclose(found, wanted)
    assert found[0][1] == pytest.approx(1.0, abs=1e-6) and found[0][2] == 0.0 and math.isnan(found[0][3])


@given(st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT, st.none() | TEXT), min_size=1, max_size=8), st.booleans())
def test_words_of_several_fields_are_those_of_the_text_put_together(rows: list[Any], normalise: bool):
    columns = dict(zip("abc", map(list, zip(*rows, strict=True)), strict=True))
    plain = normalised if normalise else str.strip
    texts = [" ".join(filter(None, (plain(value or "") for value in row))) or None for row in rows]
    found = all_answers(TfidfCosine(["a", "b", "c"], normalise=normalise), records(**columns))
    wanted = all_answers(TfidfCosine("f", normalise=False), records(f=texts))
    np.testing.assert_array_equal(found, wanted)
    together = texts_of(records(**columns), ["a", "b", "c"], normalise)
    assert [None if code < 0 else together.values[code] for code in together.codes.tolist()] == texts
    assert [*together.values] == [together.values[k] for k in range(len(together.values))]


@given(st.lists(st.text(max_size=12) | st.text("ab \t\x1f\xa0\u2003\0", max_size=8), max_size=8))
def test_words_are_those_of_split(texts: list[str]):
    split = [text.split() for text in texts]
    bags, words = bags_in(Texts(np.arange(len(texts), dtype=np.int32), texts), str.split)
    assert words == sorted({word for row in split for word in row})
    for r, row in enumerate(split):
        own = slice(bags.starts[r], bags.starts[r + 1])
        counted = dict(zip([words[k] for k in bags.indices[own]], bags.weights[own].tolist(), strict=True))
        assert counted == Counter(row) and [*counted] == sorted(counted)


def test_many_different_words():
    texts = [f"{k} {k % 977} {k * k}" for k in range(20_000)]
    bags, words = bags_in(Texts(np.arange(len(texts), dtype=np.int32), texts), str.split)
    assert words == sorted({word for text in texts for word in text.split()})
    assert [words[k] for k in bags.indices[bags.starts[1500] : bags.starts[1501]]] == sorted(texts[1500].split())


@given(st.lists(st.tuples(*[st.integers(-1, 2)] * 3), max_size=12))
def test_combinations_of_codes_are_numbered_as_they_appear(rows: list[tuple[int, ...]]):
    numbers: dict[Any, int] = {}
    wanted = [-1 if row == (-1, -1, -1) else numbers.setdefault(row, len(numbers)) for row in rows]
    assert joint_codes([*np.array(rows, np.int32).reshape(-1, 3).T]).tolist() == wanted


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=6), st.booleans())
def test_number_difference(values: list[float], relative: bool):
    def expected(a: float, b: float) -> float | None:
        if math.isnan(a) or math.isnan(b):
            return None
        size = max(abs(a), abs(b)) if relative else 1.0
        return abs(a - b) / size if size else 0.0

    assert_answers(NumberDifference("f", relative), values, expected)


def test_numbers_in_strings():
    values = ["$1,200", "1200.00", "x", None, "inf", "0", "-0"]
    found = all_answers(NumberDifference("f", relative=True), records(f=values))
    assert found[0][1] == 0.0 and found[0][5] == 1.0 and found[5][6] == 0.0
    assert all(math.isnan(found[0][i]) for i in (2, 3, 4))


def test_large_numbers_are_not_rounded_together():
    items = records(f=[6988048.0, 6988049.0, 6988048.0, math.nan])
    assert all_answers(Exact("f"), items)[0][:3] == [1.0, 0.0, 1.0]
    assert all_answers(Edit("f"), items)[0][1] == pytest.approx(6 / 7)


DAY = date(1999, 12, 31)


@pytest.mark.parametrize(
    "text",
    [
        "1999-12-31", "19991231", "1999/12/31", "1999.12.31", "1999-12-31T23:59:59Z", "1999-12-31 10:00", "31.12.1999",
        "31/12/1999", "31-12-1999", "31 Dec 1999", "31st December 1999", "Dec. 31, 1999", "December 31 1999",
        "31-dec-1999", " 1999-12-31 ", "31-Dec-99", "31.12.99", "31/12/99", "12/31/99", "31dec1999", "31/Dec/1999",
        "31 december 99", "Dec 31, 99",
    ],
)  # fmt: skip
def test_dates_in_many_forms(text: str):
    found = all_answers(DateDifference("f"), records(f=[text, "2000-01-10"]))
    assert found[0] == [0.0, (date(2000, 1, 10) - DAY).days] and found[1][0] == found[0][1]


@pytest.mark.parametrize(
    "text",
    [
        "19991331", "1999-02-30", "1999", "soon", "31/31/1999", "0000-01-01", "1 Foo 1999", "3 Marble 1999", "May",
        "12-99", "1999-13", "13/1999", "Mark 1999", "1.2.3", "1.1999.2",
    ],
)  # fmt: skip
def test_what_is_no_date_is_missing(text: str):
    assert math.isnan(all_answers(DateDifference("f"), records(f=[text, "2000-01-10"]))[0][1])


@pytest.mark.parametrize(("text", "year"), [("2-Jan-80", 1980), ("1.2.69", 1969), ("1/2/68", 2068), ("3 Mar 00", 2000)])
def test_years_of_two_digits_lie_between_1969_and_2068(text: str, year: int):
    assert all_answers(DateDifference("f"), records(f=[text, f"{year}-01-01"]))[0][1] < 366


MONTHS_ALONE = ["1980-01", "1980/1", "01/1980", "1-1980", "Jan 1980", "January 1980", "jan-1980", "Jan., 1980"]


@pytest.mark.parametrize("text", MONTHS_ALONE)
def test_a_month_without_a_day_is_compared_by_the_month(text: str):
    found = all_answers(DateDifference("f"), records(f=[text, "1980-01-20", "1980-02-25", "1980-03", "1980-02-20"]))
    assert found[0] == [0.0, 0.0, 31.0, 60.0, 31.0] and found[1][0] == 0.0 and found[2][4] == 5.0


def test_an_ambiguous_date_follows_its_column():
    """In 1/2/80 the day comes first where more dates can only be so; 31 is a day anywhere; full stops put it first."""
    days_first = records(f=["1/2/80", "1980-02-01", "31/1/80", "1/31/80", "30/1/80", "1.2.80"])
    found = all_answers(DateDifference("f"), days_first)
    assert found[0][1] == 0.0 and found[2][3] == 0.0 and found[0][5] == 0.0
    months_first = records(f=["1/2/80", "1980-01-02", "1/31/80", "1.2.80", "1980-02-01"])
    found = all_answers(DateDifference("f"), months_first)
    assert found[0][1] == 0.0 and found[3][4] == 0.0


def test_which_number_is_the_month_is_told_by_the_column():
    assert all_answers(DateDifference("f"), records(f=["1/2/2000", "2000-01-02"]))[0][1] == 0.0
    assert all_answers(DateDifference("f"), records(f=["1/2/2000", "2000-02-01", "31/1/2000"]))[0][1] == 0.0
    given_format = DateDifference("f", "%d/%m/%Y")
    assert all_answers(given_format, records(f=["1/2/2000", "1/3/2000", "2000-01-01"]))[0][1] == 29.0
    assert all_answers(DateDifference("f"), records(f=[19991231.0, 20000101.0]))[0][1] == 1.0  # numbers, from a frame


def test_which_number_is_the_month_is_learned_in_training():
    learned = DateDifference("f").learn(records(f=["31/1/2000", "1/2/2000"]))
    assert all_answers(learned, records(f=["1/2/2000", "2000-02-01"]))[0][1] == 0.0
    assert all_answers(learned, records(f=["1/31/2000", "2000-01-31"]))[0][1] == 0.0, "31 can be no month"
    with_format = DateDifference("f", "%m/%d/%Y")
    assert with_format.learn(records(f=["31/1/2000"])) is with_format and with_format.statistics() is None


def test_codes_and_numbers():
    values = ["Sony PS-LX350H 5.1", "PSLX350H, black", "no code", None]
    codes = all_answers(SharedCodes("f"), records(f=values))
    assert codes[0][1] == 1.0 and math.isnan(codes[0][2]) and math.isnan(codes[0][3])
    assert all_answers(SharedCodes("f", "jaccard"), records(f=values))[0][1] == pytest.approx(1 / 3)
    numbers = all_answers(Numbers("f"), records(f=["1,250.50 at 2,5", "1250.5", "2.5", "10.12.1999", "x"]))
    assert numbers[0][1:4] == [0.5, 0.5, 0.0] and math.isnan(numbers[0][4])


# -- long texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Edit, JaroWinkler])
def test_very_long_strings_are_compared_by_their_beginning(kind: Any, caplog: pytest.LogCaptureFixture):
    begin = "abcdefghij" * 200
    values = [begin + "x" * 300_000, begin + "y" * 170_000, "b" + begin[1:] + "z", "ab", None]
    found = all_answers(kind("f"), records(f=values))
    wanted = all_answers(kind("f"), records(f=[value and value[:2000] for value in values]))
    np.testing.assert_array_equal(found, wanted)
    assert found[0][1] == 1.0 and 0.9 < found[0][2] < 1
    kind("f").learn(records(f=values))
    told = f"{kind('f').name}: 3 of 4 texts have more than 2,000 characters and are compared by the first 2,000"
    assert told in caplog.text and "token_overlap(f) or tfidf_cosine(f)" in caplog.text


def test_long_texts_are_compared_by_words_unless_told_otherwise():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), 7)) for _ in range(50)]
    texts = {
        "sentences": [" ".join(rng.choice(words, 60)) for _ in range(12)],
        "without blanks": ["".join(rng.choice(words, 60)) for _ in range(12)],
        "codes": ["".join(rng.choice(list("0123456789-"), 500)) for _ in range(12)],
        "digits": ["".join(rng.choice(list("0123456789"), 500)) for _ in range(12)],
        "a few long ones": [*words[:11], "".join(rng.choice(words, 20_000))],
    }
    for name, values in texts.items():
        chosen = default_comparisons(records(f=values))
        assert not any(isinstance(one, Edit | JaroWinkler) for one in chosen), name
        assert any(isinstance(one, TfidfCosine) for one in chosen), name
    short = default_comparisons(records(f=words))
    assert Edit("f") in short and JaroWinkler("f") in short


# -- a user's function --------------------------------------------------------------------------------


def test_a_function_is_called_once_a_distinct_pair():
    calls: list[tuple[str, str]] = []

    def same_length(a: str, b: str) -> bool | None:
        calls.append((a, b))
        return None if a == "?" else len(a) == len(b)

    found = all_answers(PairFunction(same_length, "f"), records(f=["ab", "cd", "ab", "x", "?", None]))
    assert found[0][:4] == [1.0, 1.0, 1.0, 0.0] and math.isnan(found[4][0]) and math.isnan(found[0][5])
    assert len(calls) == len(set(calls)) == 16


def test_a_function_of_several_fields_takes_tuples():
    def apart(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
        assert all(isinstance(one, tuple) and len(one) == 2 for one in (a, b))
        return float((a[0] is None) + (b[0] is None) + abs((a[1] or 0.0) - (b[1] or 0.0)))

    items = records(f=["a", None, "b", None], g=[1.0, 2.5, math.nan, math.nan])
    feature = PairFunction(apart, ["f", "g"], "apart")
    found = all_answers(feature, items)
    assert found[0][:3] == [0.0, 2.5, 1.0] and found[1][0] == 2.5 and math.isnan(found[0][3])
    assert feature.columns[0].name == "apart"


@pytest.mark.parametrize("answer", ["yes", math.inf, [1], 1j])
def test_a_function_must_return_numbers(answer: Any):
    with pytest.raises(InputError, match="finite number"):
        all_answers(PairFunction(lambda a, b: answer, "f", "mine"), records(f=["a", "b"]))


# -- settings, text form, model files -----------------------------------------------------------------

EVERY = [
    Exact("f"), Exact("f", normalise=False), JaroWinkler("f"), Edit("f"), TokenOverlap("f"),
    TokenOverlap("f", "containment"), TfidfCosine("f"), TfidfCosine(["f", "g"], 3), NumberDifference("f"),
    NumberDifference("f", relative=True), DateDifference("f"), DateDifference("f", "%d/%m/%Y"), SharedCodes("f"),
    SharedCodes("f", "jaccard"), Numbers("f"), Rarity("f"), Rarity("f", normalise=False),
    Cosine("f"),
]  # fmt: skip


@pytest.mark.parametrize("feature", EVERY, ids=lambda feature: feature.name)
def test_round_trips(feature: Any):
    assert parse_comparison(feature.name) == feature
    again = rebuilt_comparison(json.loads(json.dumps(feature.spec())), {})
    assert again == feature and again.columns == feature.columns and again.fields == feature.fields


def test_every_kind_is_tried():
    assert {type(feature) for feature in EVERY} == set(KINDS.values())


def test_functions_are_given_again():
    feature = PairFunction(max, ["f", "g"], "larger")
    again = rebuilt_comparison(json.loads(json.dumps(feature.spec())), {"larger": max})
    assert again == feature
    with pytest.raises(ModelFileError, match=r"named 'larger', which a file cannot hold.*Given: smaller"):
        rebuilt_comparison(feature.spec(), {"smaller": min})
    with pytest.raises(ModelFileError, match="does not know"):
        rebuilt_comparison({"comparison": "Psychic"}, {})


def test_the_form_of_templates_is_read_too():
    assert parse_comparison("jaro-winkler:surname") == JaroWinkler("surname")
    assert parse_comparison("tfidf_cosine: a + b : 3") == TfidfCosine(["a", "b"], 3)
    assert parse_comparison("number_difference(price, absolute)") == NumberDifference("price")


@pytest.mark.parametrize(
    "text", ["", "exact", "exact()", "nothing(f)", "exact(f, g)", "tfidf_cosine(f, x)", "number_difference(f, much)",
             "token_overlap(f, union)", "date_difference(f, day)", "tfidf_cosine(f, 0)", "tfidf_cosine(f + )"],
)  # fmt: skip
def test_what_cannot_be_read(text: str):
    with pytest.raises(SettingError):
        parse_comparison(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exact(""), lambda: Exact(3), lambda: TfidfCosine([]), lambda: TfidfCosine("f", True),  # type: ignore[arg-type]
        lambda: NumberDifference("f", 1), lambda: PairFunction(3, "f"), lambda: PairFunction(max, []),  # type: ignore[arg-type]
        lambda: as_comparisons([]), lambda: as_comparisons([3]), lambda: as_comparisons(["edit(f)", Edit("f")]),
    ],
)  # fmt: skip
def test_settings_are_checked(make: Any):
    with pytest.raises(SettingError):
        make()


def test_a_field_that_is_not_there():
    with pytest.raises(InputError, match=r"no column 'g' to compare; the items have 'f'"):
        Edit("g").of(records(f=["a"]))


@pytest.mark.parametrize("feature", EVERY, ids=lambda feature: feature.name)
def test_no_items_no_pairs_and_nothing_known(feature: Any):
    for items in (records(f=[], g=[]), records(f=[None, None], g=[None, None])):
        answer = feature.of(items)
        assert answer(np.empty(0, np.int32), np.empty(0, np.int32)).shape == (0, 1)
    missing = answer(np.zeros(3, np.int32), np.ones(3, np.int32))
    assert (missing == 0).all() if feature.columns[0].values else np.isnan(missing).all()


# -- normal form and choice ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("  O'Neill,  ZOË ", "oneill zoe"), ("a_b-c/d", "a b c d"), ("Straße", "strasse"), ("Ångström", "angstrom"),
        ("—", ""), ("", ""), ("日本 語", "日本 語"), ("हिन्दी", "हिन्दी"), ("ＡＢＣ１", "abc1"), ("Ёлка", "елка"),
        ("が", "が"),
    ],
)  # fmt: skip
def test_normal_form(text: str, plain: str):
    assert normalised(text) == plain


@given(st.text(st.characters(max_codepoint=127)))
def test_normal_form_of_plain_text_is_words_in_small_letters(text: str):
    words = re.sub(r"[\W_]+", " ", re.sub("['`]", "", text.lower())).split()
    assert normalised(text) == " ".join(words)


@given(st.lists(TEXT | st.text(max_size=15), max_size=6), st.integers(1, 10))
def test_runs_of_characters_are_those_cut_out_one_by_one(texts: list[str], n: int):
    bags, tokens = bags_of_ngrams(texts, n)
    assert_runs(bags, tokens, texts, n)


def test_runs_of_more_characters_than_a_number_holds():
    texts = ["".join(map(chr, range(0x4E00 + k, 0x4E00 + k + 300))) for k in (0, 1, 150)]
    assert_runs(*bags_of_ngrams(texts, 10), texts, 10)


def assert_runs(bags: Any, tokens: list[str], texts: list[str], n: int) -> None:
    wanted = [Counter(f" {t} "[i : i + n] for i in range(len(t) + 3 - n)) for t in texts]
    assert tokens == sorted(set().union(*wanted))
    assert len(bags.starts) == len(texts) + 1
    for row, counter in enumerate(wanted):
        own = slice(bags.starts[row], bags.starts[row + 1])
        assert (np.diff(bags.indices[own]) > 0).all()
        named = [tokens[k] for k in bags.indices[own].tolist()]
        assert dict(zip(named, bags.weights[own].tolist(), strict=True)) == counter


def test_long_texts_are_compared_by_tokens_alone():
    """Also where a column has words between: no comparison of characters is chosen for thousands of them."""
    texts = [f"{'word ' * 4000}{k}" for k in range(10)]
    chosen = {type(feature).__name__ for feature in default_comparisons(records(text=texts))}
    assert chosen >= {"TokenOverlap", "TfidfCosine"} and not chosen & {"Edit", "JaroWinkler", "Exact"}


@given(TEXT)
def test_normal_form_stays(text: str):
    assert normalised(normalised(text)) == normalised(text)


def test_comparisons_are_chosen_by_what_fields_hold():
    n = 40
    items = records(
        surname=[f"name{chr(97 + i % 26)}{'x' * (i % 3)}" for i in range(n)],
        born=[f"19{i + 10}0101" for i in range(n)],
        postcode=[f"{i:02d}34" for i in range(n)],
        year=[str(1980 + i % 20) for i in range(n)],
        price=[float(i) for i in range(n)],
        title=[f"a rather long title of a paper number {i} by somebody with a model XY-{i}Z" for i in range(n)],
        same=["au"] * n,
        empty=[None] * n,
    )
    chosen: dict[str, set[str]] = {}
    for feature in default_comparisons(items):
        assert feature.of(items)(np.arange(3, dtype=np.int32), np.arange(1, 4, dtype=np.int32)).shape == (3, 1)
        for field in feature.fields:  # type: ignore[attr-defined]
            chosen.setdefault(field, set()).add(type(feature).__name__)
    assert chosen["born"] >= {"DateDifference"} and chosen["postcode"] == {"Exact", "Edit"}
    assert "NumberDifference" in chosen["year"] & chosen["price"] and "JaroWinkler" in chosen["surname"]
    assert chosen["title"] >= {"TfidfCosine", "SharedCodes", "Numbers", "TokenOverlap"}
    assert not {"same", "empty"} & set(chosen)
    with pytest.raises(InputError, match="nothing to compare"):
        default_comparisons(records(same=["x", "x"]))
