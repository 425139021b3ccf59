"""A small world for labelling: people, a model of other people, and a server that runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import kinfolk as kf
from kinfolk.linking.label_server import LabelServer

RULES = ["key(postcode)", "key(date_of_birth)", "sorted(surname + given_name, 5)"]
COMPARED = ["jaro_winkler(given_name)", "jaro_winkler(surname)", "exact(date_of_birth)", "exact(postcode)"]


@cache
def people() -> kf.Mentions:
    return kf.generate_customers(250, seed=3)


@cache
def start() -> kf.Linker:
    """A model of other people."""
    return kf.Linker(COMPARED, blocking=RULES, n_jobs=1).fit(kf.generate_customers(120, seed=4, typos=1))


def truth(left: str, right: str) -> bool:
    items = people()
    assert items.clusters is not None
    return bool(items.clusters[items.number(left)] == items.clusters[items.number(right)])


@contextmanager
def served(path: Path | None, records: kf.Mentions | None = None, **settings: object) -> Iterator[LabelServer]:
    """A server that runs in a thread, over a loop that trains in the background."""
    loop = kf.ActiveLinker(start(), people() if records is None else records, path, background=True, **settings)
    server = LabelServer(loop, "Some people.")
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
        loop.close()
