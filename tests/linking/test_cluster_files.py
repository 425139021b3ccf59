"""Clusters and pairs written out, brackets that come back the same, and files of links."""

from __future__ import annotations

import csv
import io
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.linking.cluster_files import (
    bracket_cells,
    item_ids,
    item_number,
    item_places,
    numbered_clusters,
    read_id_pairs,
    write_clusters,
    write_coref,
    write_pairs,
)
from kinfolk.linking.coref import LabelledSpan, parse_brackets, read_coref
from kinfolk.linking.mentions import Mentions

TWELVE = """#begin document (bc/x); part 000
bc/x 0 0 Kim NNP * - - - * (1)
bc/x 0 1 's POS * - - - * -
bc/x 0 2 dog NN * - - - * (2

bc/x 0 0 barks VBZ * - - - * 2)|(1
bc/x 0 1 now RB * - - - * 1)
#end document

#begin document (bc/x); part 001
bc/x 1 0 Nobody NN * - - - * -
#end document
"""
TYPED = "#begin document (y)\r\n0\tKim\t(person-7-Kim)\r\n1\tsleeps\t_\r\n2\tshe\t(person-7-Kim)\r\n#end document"


def records(names: list[str], first_table: int | None = None) -> Mentions:
    n = len(names)
    left, right = np.triu_indices(n, 1) if first_table is None else (np.array([0]), np.array([first_table]))
    order = np.lexsort((left, right))
    return Mentions({}, np.zeros(n, np.int32), left[order], right[order], names=names, first_table=first_table)


def test_clusters_of_records(tmp_path: Path):
    names = ["a", 'b "x", y', "ç"]
    write_clusters(str(tmp_path / "c.csv"), records(names), np.array([4, 7, 4]))
    rows = list(csv.reader(io.StringIO((tmp_path / "c.csv").read_text(encoding="utf-8"))))
    assert rows == [["id", "cluster"], ["a", "0"], ['b "x", y', "1"], ["ç", "0"]]
    write_clusters(str(tmp_path / "c.json"), records(names, 1), np.array([0, 1, 0]), tables=("l", "r"), as_json=True)
    found = [json.loads(line) for line in (tmp_path / "c.json").read_text(encoding="utf-8").splitlines()]
    assert [(one["table"], one["cluster"]) for one in found] == [("l", 0), ("r", 1), ("r", 0)]


def test_pairs_above_a_probability(tmp_path: Path):
    items = records(["a", "b", "c"])
    write_pairs(str(tmp_path / "p"), items, np.array([0.9, 0.25, 0.1]), np.array([0, 0, 1]), least=0.25)
    told = (tmp_path / "p").read_text()
    assert told == "left,right,probability,linked\na,b,0.900000,1\na,c,0.250000,0\n"


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4), st.integers(0, 3)), max_size=10))
def test_brackets_come_back_unless_spans_of_a_label_cross(drawn: list[tuple[int, int, int]]):
    spans = {(s, min(s + n, 8)): str(label) for s, n, label in drawn}
    listed = [LabelledSpan(s, e, label) for (s, e), label in spans.items()]

    def crossing(a: LabelledSpan, b: LabelledSpan) -> bool:
        return a.label == b.label and a.start < b.start < a.end - 1 and a.end < b.end

    kept = [a for a in listed if not any(crossing(a, b) or crossing(b, a) for b in listed)]
    cells = bracket_cells(kept, 8)
    assert {*parse_brackets(cells).spans} == {*kept}


def test_documents_keep_all_but_their_last_column(tmp_path: Path):
    (tmp_path / "x.conll").write_text(TWELVE)
    items = read_coref(tmp_path / "x.conll")
    assert item_ids(items) == ["bc/x:0-0", "bc/x:2-3", "bc/x:3-4"]
    write_coref(str(tmp_path / "out"), tmp_path / "x.conll", items, np.array([5, 6, 6]))
    told = (tmp_path / "out").read_text().splitlines()
    assert told[1] == "bc/x 0 0 Kim NNP * - - - * (0)" and told[5].endswith(" * 1)|(1") and told[6].endswith(" 1)")
    assert [line.split()[:-1] for line in told] == [line.split()[:-1] for line in TWELVE.splitlines()]
    again = read_coref(tmp_path / "out")
    assert list(again.names or ()) == list(items.names or ()) and again.clusters is not None
    assert again.clusters.tolist() == [0, 1, 1]


def test_a_folder_becomes_one_file_with_types_and_line_ends(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.conll").write_bytes(TYPED.encode())
    (tmp_path / "in" / "a.conll").write_text(TWELVE)
    (tmp_path / "in" / "b.conllu").write_text(
        "".join(f"{i}\t{w}\t_\tX\t_\t_\t0\troot\t_\t_\n" for i, w in enumerate(("Kim", "sleeps", "she"), 1)) + "\n"
    )
    items = read_coref(tmp_path / "in")
    write_coref(str(tmp_path / "out"), tmp_path / "in", items, np.arange(5))
    told = (tmp_path / "out").read_bytes().decode()
    assert told.startswith("#begin document (bc/x)") and told.endswith("#end document\n")
    assert "0\tKim\t(person-0)\r\n1\tsleeps\t_\r\n2\tshe\t(person-1)\r\n" in told
    assert read_coref(tmp_path / "out").group_names == items.group_names


def test_crossing_mentions_of_a_cluster_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "x.conll").write_text("#begin document (x)\na (1\nb (2\nc 1)\nd 2)\n#end document\n")
    items = read_coref(tmp_path / "x.conll")
    with caplog.at_level(logging.WARNING, "kinfolk"):
        write_coref(str(tmp_path / "out"), tmp_path / "x.conll", items, np.array([0, 1]))
        assert not caplog.messages
        write_coref(str(tmp_path / "out"), tmp_path / "x.conll", items, np.array([0, 0]))
    assert "brackets cannot express 2 mentions" in caplog.text


def test_documents_that_changed_meanwhile(tmp_path: Path):
    (tmp_path / "x.conll").write_text(TWELVE)
    items = read_coref(tmp_path / "x.conll")
    for text in (
        TWELVE.replace("(1)", "-"),
        TWELVE.replace("bc/x)", "other)"),
        TWELVE * 2,
        TWELVE.partition("\n\n#")[0],
    ):
        (tmp_path / "x.conll").write_text(text)
        with pytest.raises(InputError, match="no longer those"):
            write_coref(str(tmp_path / "out"), tmp_path / "x.conll", items, np.zeros(3, np.int32))
    assert not (tmp_path / "out").exists()


def documents() -> Mentions:
    text = Column.from_strings(["a", "b", "c", "d"])
    names = ["0-0", "1-1", "0-0", "1-1"]
    return Mentions.from_groups([0, 0, 1, 1], {"text": text}, names=names, group_names=["p", "q"])


def test_clusters_are_numbered_by_document():
    assert numbered_clusters(documents(), np.array([0, 1, 2, 2])) == [0, 1, 0, 0]


def test_ids_and_files_of_them(tmp_path: Path):
    items = documents()
    (tmp_path / "links").write_text('"p:0-0","p:1-1"\n\nq:1-1\tq:0-0\n  q:0-0   q:1-1 \n')
    assert read_id_pairs(tmp_path / "links", items).tolist() == [[0, 1], [3, 2], [2, 3]]
    (tmp_path / "links").write_text("")
    assert read_id_pairs(tmp_path / "links", items).shape == (0, 2)
    (tmp_path / "links").write_text("p:0-0 q:0-0\n")
    with pytest.raises(InputError, match=r"line 1: .* different documents"):
        read_id_pairs(tmp_path / "links", items)
    assert item_number("p:1-1", item_places(items)) == 1
    with pytest.raises(InputError, match="no item has the id '1-1'; ids look like 'p:0-0'"):
        item_number("1-1", item_places(items))
    assert item_number("1-1", item_places(items.take_groups([1]))) == 1
    twice = Mentions.from_groups([0, 1], {}, names=["0-0", "0-0"], group_names=["p", "p"])
    with pytest.raises(InputError, match="several items have the id 'p:0-0'"):
        item_number("p:0-0", item_places(twice))
