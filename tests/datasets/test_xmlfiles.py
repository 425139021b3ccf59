"""XML as events: lines told, entities refused, everything broken a sentence."""

from __future__ import annotations

import pytest

from kinfolk.datasets.corpora import CHUNK, End, Start, attribute, xml_events
from kinfolk.errors import InputError

LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE lolz [
 <!ENTITY lol "lol">
 <!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">
]>
<lolz>&lol2;</lolz>"""


def events(text: str | bytes) -> list[Start | End | str]:
    return list(xml_events(text if isinstance(text, bytes) else text.encode(), "a.xml"))


def test_tags_texts_and_lines():
    assert events('<a>\n<b x="1 &lt; 2">p &amp; q</b>\r\n<c/></a>') == [
        Start("a", {}, 1), "\n", Start("b", {"x": "1 < 2"}, 2), "p & q", End("b", 2), "\n",
        Start("c", {}, 3), End("c", 3), End("a", 3),
    ]  # fmt: skip


def test_lines_may_end_in_carriage_returns_alone():
    assert [e.line for e in events("<a>\r<b/>\r</a>") if isinstance(e, Start)] == [1, 2]


def test_text_is_the_same_wherever_the_chunks_end():
    for length in (CHUNK - 8, CHUNK - 7, CHUNK - 6, CHUNK, 3 * CHUNK):
        text = "é&lt;" * (length // 6)
        found = events(f"<a>{text}</a>")
        assert "".join(e for e in found if isinstance(e, str)) == text.replace("&lt;", "<")


def test_encodings_are_those_declared():
    declared = '<?xml version="1.0" encoding="{}"?><a>né</a>'
    for encoding in ("utf-8", "utf-16", "iso-8859-1", "windows-1252"):
        assert events(declared.format(encoding).encode(encoding))[1] == "né"
    for encoding in ("no-such", "shift_jis"):
        with pytest.raises(InputError, match=r"a.xml.*unusable encoding .* convert the file to UTF-8"):
            events(declared.format(encoding).encode())


def test_a_doctype_is_no_harm_and_its_file_never_read(tmp_path):
    (tmp_path / "secret.dtd").write_text('<!ENTITY x "leaked">')
    doctype = f'<!DOCTYPE a SYSTEM "{tmp_path / "secret.dtd"}">'
    assert events(f"{doctype}<a>b</a>")[1] == "b"
    with pytest.raises(InputError, match=r"a.xml, line 1: unknown entity &x;"):
        events(f"{doctype}<a>&x;</a>")


REFUSED = {
    "a billion laughs": (LAUGHS, "line 3: declares the entity 'lol'.* remove the declaration"),
    "a file as an entity": ('<!DOCTYPE a [<!ENTITY x SYSTEM "/etc/passwd">]><a>&x;</a>', "declares the entity 'x'"),
    "a parameter entity": ('<!DOCTYPE a [<!ENTITY % x "y">]><a/>', "declares the entity 'x'"),
    "laughs in UTF-16": (LAUGHS.replace("?>", ' encoding="utf-16"?>', 1).encode("utf-16"), "declares the entity 'lol'"),
    "an unknown entity": ("<a>\n&nbsp;</a>", r"line 2: broken XML \(undefined entity\)"),
    "a tag that does not fit": ("<a>\n<b>\n</a>", r"a.xml, line 3: broken XML \(mismatched tag\); correct it or fetch"),
    "half a file": ("<a>\n<b>", "line 2: broken XML"),
    "nothing": ("", r"broken XML \(no element found\)"),
    "no XML": ("Kim left", "line 1: broken XML"),
    "bytes that are no UTF-8": (b"<a>\n\xe9</a>", "line 2: broken XML"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(text: str | bytes, message: str):
    with pytest.raises(InputError, match=message) as caught:
        events(text)
    assert caught.value.path == "a.xml"


def test_deep_nesting_is_no_crash():
    assert len(events("<a>" * 100_000 + "</a>" * 100_000)) == 200_000


def test_attributes_that_must_be_there():
    assert attribute(Start("b", {"x": "1"}, 2), "x", "a.xml") == "1"
    with pytest.raises(InputError, match=r"a.xml, line 2: <b> needs the attribute 'y'; it has x"):
        attribute(Start("b", {"x": "1"}, 2), "y", "a.xml")
    with pytest.raises(InputError, match="it has none"):
        attribute(Start("b", {}, 2), "y", "a.xml")
