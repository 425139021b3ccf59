"""Generated customers, some of them entered several times with mistakes: any number of records to link, with the truth.

They look like the people of FEBRL (Christen 2008). Each part is drawn independently:

1. People: names are put together from syllables, some of which are far more common than others; a date of birth between
   1900 and 1999; an id number that nobody else has; a street and a number in one of the suburbs. A suburb has a
   postcode and a state, and about PEOPLE_A_SUBURB people whatever their number is, so that blocks by place do not grow.
2. Every duplicate is of one of the people, all equally likely: their numbers of duplicates are near Poisson.
3. A duplicate has its two names swapped with probability `swapped`. It gets Poisson(`typos`) typos, each in a field
   drawn by TYPO_SHARES: a letter put in, left out, changed, or taken for another that looks like it, or two swapped.
4. Every field of every record, first or not, is missing with probability `missing`, but the id number never is.
5. The records are shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.datasets import checked_number
from kinfolk.linking.mentions import Mentions

Array = NDArray[Any]
PEOPLE_A_SUBURB = 100
IDS = 90_000_000  # numbers of eight digits
TYPO_SHARES = {
    "given_name": 0.17, "surname": 0.17, "street_number": 0.06, "address": 0.17, "suburb": 0.12, "postcode": 0.07,
    "state": 0.02, "date_of_birth": 0.11, "id_number": 0.11,
}  # fmt: skip
FIELDS = tuple(TYPO_SHARES)
LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
ALIKE = {
    "m": "rn", "w": "vv", "d": "cl", "l": "1", "i": "l", "o": "0", "s": "5", "b": "6", "g": "q", "q": "g", "u": "v",
    "v": "u", "e": "c", "c": "e", "n": "h", "h": "n", "0": "o", "1": "l", "5": "s", "6": "b", "8": "3", "3": "8",
}  # fmt: skip
KINDS = ("insert", "delete", "change", "swap", "alike")

# The more common ones come first.
GIVEN_STARTS = (
    "ja jo ma la em th li sa ch al be da so ni ka is mi ol ra ha el ti ed ro jes sam luk kai bri an hol vic pat tam "
    "dom fel wil geo ros iv"
).split()
GIVEN_ENDS = (
    "ck hn ra ily omas am rah loe ex njamin niel phie cole tlyn abella chael ivia chel nnah iza mothy win nnie son uel "
    "as den anna drea ly toria rick sin inic ix liam rgia alind on ette ena"
).split()
SURNAME_STARTS = (
    "smi jon will bro tay and tho whi mar ryan kell camp wil mit rob gre har cla lew wal sco hug mor bai step cole "
    "mor hen wri dun fra pat mill cham ree bur web nich gib ros hol bar kno fle dix fox hay lang pe qui rit shel tra "
    "und vau wat yor zim ack bel cro"
).split()
SURNAME_MIDDLES = (
    " er ing en a el or i ar o an is un e ul on es ad ot ib ev im um ec ir il ap ol og ux eb as ip yd av ent ick ald "
    "urn ost"
).split(" ")
SURNAME_ENDS = (
    "th es ams wn lor son mas te tin y bell ley ton chell erts en ris rk is ker tt hes gan man ford well field wood by "
    "stone worth land mond nard sley dale shaw court brook more"
).split()
PLACE_STARTS = (
    "mel syd bris ade per hob can dar geel bal ben wag tam dub ora lis bath gos wol new cess mai cairn mack bund glad "
    "rock town too ips log red cal man mos hor war swan mil yar bur al"
).split()
PLACE_MIDDLES = " a o i e ar er in on um al ing ong ang ore ung".split(" ")
PLACE_ENDS = (
    "bourne ney bane laide th art berra win long arat digo ga worth bo nge more ford ville ham field park hill brook "
    "vale dale mount beach grove ridge wood"
).split()
STREETS = ("street", "place", "crescent", "circuit", "close", "avenue", "road", "court", "drive", "lane")
STATES = ("nsw", "vic", "qld", "wa", "sa", "tas", "act", "nt")


def generate_customers(
    n_records: int,
    *,
    duplicates: float = 0.5,
    typos: float = 2.0,
    swapped: float = 0.03,
    missing: float = 0.02,
    seed: int = 0,
) -> Mentions:
    """Records of people in one table, with the true clusters and names such as "rec-17-dup-1"; no pairs yet.

    duplicates   the share of the records that repeat somebody; one record at least is nobody's duplicate
    typos        how many a duplicate has on average
    swapped      the share of the duplicates whose names are in each other's field
    missing      the share of the values that are not there
    """
    checked_number("n_records", n_records, IDS, whole=True)
    checked_number("seed", seed, whole=True)
    checked_number("typos", typos, 100)
    for name, share in (("duplicates", duplicates), ("swapped", swapped), ("missing", missing)):
        checked_number(name, share, 1)
    rng = np.random.default_rng(seed)
    repeated = min(round(duplicates * n_records), max(n_records - 1, 0))
    people = n_records - repeated
    original = _people(people, rng)
    person = np.concatenate([np.arange(people), np.sort(rng.integers(max(people, 1), size=repeated))])
    values = {name: column[person] for name, column in original.items()}
    turned = people + np.flatnonzero(rng.random(repeated) < swapped)
    given, family = values["given_name"], values["surname"]
    given[turned], family[turned] = family[turned], given[turned]
    _mistype(values, people, rng.poisson(typos, repeated), rng)
    for name, column in values.items():
        gone = rng.random(n_records) < missing
        if name != "id_number":
            column[gone] = None
    order = rng.permutation(n_records)
    return Mentions(
        {name: Column.from_strings(column[order].tolist()) for name, column in values.items()},
        np.zeros(n_records, np.int32),
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        person[order].astype(np.int32),
        _names(person, people, order),
    )


def _people(n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Object arrays (n,) of strings, by field."""
    places = max(20, n // PEOPLE_A_SUBURB)
    place = rng.integers(places, size=n)
    suburbs = _composed(places, rng, PLACE_STARTS, PLACE_MIDDLES, PLACE_ENDS)
    postcodes = _written(1000 + rng.permutation(places) % 9000)
    states = np.array(STATES, object)[_common_first(places, len(STATES), rng)]
    streets = _composed(n, rng, PLACE_STARTS, SURNAME_MIDDLES, SURNAME_ENDS)
    kinds = np.array(STREETS, object)[_common_first(n, len(STREETS), rng)]
    first = np.datetime64("1900-01-01")
    days = np.arange(first, np.datetime64("2000-01-01"))
    calendar = np.array([str(day).replace("-", "") for day in days], object)
    found = {
        "given_name": _composed(n, rng, GIVEN_STARTS, GIVEN_ENDS),
        "surname": _composed(n, rng, SURNAME_STARTS, SURNAME_MIDDLES, SURNAME_ENDS),
        "street_number": _written(1 + _common_first(n, 300, rng)),
        "address": streets + " " + kinds,
        "suburb": suburbs[place],
        "postcode": postcodes[place],
        "state": states[place],
        "date_of_birth": calendar[rng.integers(len(days), size=n)],
        "id_number": _written(10_000_000 + rng.choice(IDS, n, replace=False)),
    }
    assert tuple(found) == FIELDS
    return found


def _common_first(n: int, count: int, rng: np.random.Generator) -> Array:
    """n numbers below `count`, the lower ones more often: the density falls with the square root."""
    return (count * rng.random(n) ** 2).astype(np.int64)


def _composed(n: int, rng: np.random.Generator, *parts: Sequence[str]) -> Array:
    """n words put together from one of each of the parts; every distinct word is made once."""
    codes = np.zeros(n, np.int64)
    for part in parts:
        codes = codes * len(part) + _common_first(n, len(part), rng)
    distinct, which = np.unique(codes, return_inverse=True)
    words = np.full(len(distinct), "", object)
    for part in reversed(parts):
        words = np.array(part, object)[distinct % len(part)] + words
        distinct //= len(part)
    return np.asarray(words[which])


def _written(numbers: Array) -> Array:
    return np.array([*map(str, numbers.tolist()), None], object)[:-1]  # None keeps it an array of objects


def _mistype(values: dict[str, Array], first: int, counts: Array, rng: np.random.Generator) -> None:
    """counts[d] typos in record first + d, each in a field of its own drawing."""
    record = first + np.repeat(np.arange(len(counts)), counts)
    shares = np.array([TYPO_SHARES[name] for name in FIELDS])
    field = rng.choice(len(FIELDS), len(record), p=shares / shares.sum())
    kind = rng.integers(len(KINDS), size=len(record))
    draws = rng.random((len(record), 2))
    for number, name in enumerate(FIELDS):
        column, chosen = values[name], np.flatnonzero(field == number)
        typos = zip(record[chosen].tolist(), kind[chosen].tolist(), draws[chosen].tolist(), strict=True)
        for at, which, (where, what) in typos:
            column[at] = typo(column[at], KINDS[which], where, what)


def typo(text: str, kind: str, where: float, what: float) -> str:
    """`text` with one mistake, so never the same; `where` and `what`, from 0 up to 1, choose the place and letter."""
    place = int(where * len(text))
    if kind == "swap":
        pairs = [i for i in range(len(text) - 1) if text[i] != text[i + 1]]
        if pairs:
            i = pairs[int(where * len(pairs))]
            return text[:i] + text[i + 1] + text[i] + text[i + 2 :]
    elif kind == "alike":
        places = [i for i, letter in enumerate(text) if letter in ALIKE]
        if places:
            i = places[int(where * len(places))]
            return text[:i] + ALIKE[text[i]] + text[i + 1 :]
    elif kind == "delete" and len(text) > 1:
        return text[:place] + text[place + 1 :]
    alphabet = DIGITS if not text or text[place] in DIGITS else LETTERS
    if kind == "insert" or not text:
        return text[:place] + alphabet[int(what * len(alphabet))] + text[place:]
    others = alphabet.replace(text[place], "")
    return text[:place] + others[int(what * len(others))] + text[place + 1 :]


def _names(person: Array, people: int, order: Array) -> list[str]:
    """rec-17-org, rec-17-dup-0, rec-17-dup-1; the duplicates of a person come one after the other."""
    again = person[people:]
    number = np.arange(len(again)) - np.searchsorted(again, again)
    names = [f"rec-{i}-org" for i in range(people)]
    names += [f"rec-{i}-dup-{k}" for i, k in zip(again.tolist(), number.tolist(), strict=True)]
    return [names[i] for i in order.tolist()]
