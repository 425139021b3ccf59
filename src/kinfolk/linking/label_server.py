"""The labelling page's server, for one person at this computer.

It listens on 127.0.0.1 alone. Every request has to know the token in the path, which is drawn anew at every start, so
no other program or page can ask or answer; it has to name this server in `Host`, so that no foreign name that leads
here is followed; and an answer has to come as JSON from the page itself, which a form of another page cannot send.

    GET  /TOKEN/          the page
    GET  /TOKEN/state     the question and how far one is
    POST /TOKEN/answer    {"left": id, "right": id, "match": "yes" | "no" | "unsure"}; the next state
    POST /TOKEN/back      the last answer taken back; the state

An answer is on disk before the next question is sent. An answer about another pair than the one that is asked (a second
window, a reply that came twice) changes nothing.
"""

from __future__ import annotations

import errno
import gc
import hmac
import json
import logging
import secrets
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from kinfolk.errors import InputError, SettingError
from kinfolk.linking.active import ActiveLinker, Question
from kinfolk.linking.answers import MATCH
from kinfolk.report.page import Part, policy_of, report_html

log = logging.getLogger("kinfolk")
HOST = "127.0.0.1"
LARGEST = 1 << 16  # bytes of an answer
PATIENCE = 30  # seconds for a request to arrive
SWITCH = 0.0005  # seconds after which a thread that computes lets others run; Python's own is ten times as long
ANSWERS = {word: match for match, word in MATCH.items()}
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the token stays here
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Reply(NamedTuple):
    status: int
    body: str
    kind: str = "application/json"
    policy: str = "default-src 'none'; frame-ancestors 'none'"


class LabelServer:
    """Serves the page until it is closed; `address` is where.

    loop   asks, and takes the answers
    about  a sentence under the title
    port   0: any that is free
    """

    def __init__(self, loop: ActiveLinker, about: str = "", port: int = 0) -> None:
        if not isinstance(port, int) or not 0 <= port < 1 << 16:
            raise SettingError("port", port, "a port from 1 to 65535, or 0 for any that is free")
        self.loop, self.about, self.token = loop, about, secrets.token_urlsafe(24)
        self.closed = False
        self._turn = threading.Lock()  # an answer and the state after it are one step
        server = self

        class Handler(_Handler):
            owner = server

        try:
            self._http = ThreadingHTTPServer((HOST, port), Handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "is in use by another program" if error.errno == errno.EADDRINUSE else "is not for every program"
            remedy = "name another one, or leave `port` out for any that is free"
            raise SettingError.saying(f"port {port} of {HOST} {why}; {remedy}") from None
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve(self) -> None:
        """Until `close`, or an interrupt.

        Meanwhile threads change places often, so that training makes nobody wait, and Python does not look for garbage
        among the records (200 ms with 50,000 of them).
        """
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        gc.collect()
        gc.freeze()
        try:
            self._http.serve_forever(poll_interval=0.05)
        finally:
            gc.unfreeze()
            sys.setswitchinterval(before)

    def close(self) -> None:
        """Stop `serve` in another thread, and free the port."""
        self._http.shutdown()
        self.release()

    def release(self) -> None:
        """Free the port; `serve` has ended."""
        self.closed = True
        self._http.server_close()

    # -- what is asked of it ------------------------------------------------------------------------------

    def reply(self, verb: str, path: str, headers: Any, body: bytes) -> Reply:
        refused = self._refused(verb, path, headers)
        if refused is not None:
            return refused
        what = path.partition("?")[0].removeprefix(f"/{self.token}/")
        try:
            if verb == "GET" and what == "":
                return self._page()
            if verb == "GET" and what == "state":
                return Reply(200, _json(self.state()))
            if verb == "POST" and what == "answer":
                return self._answer(body)
            if verb == "POST" and what == "back":
                with self._turn:
                    note = None if self.loop.back() is not None else "there is no answer to take back"
                    return Reply(200, _json(self.state(note)))
        except InputError as error:
            return _fault(500, str(error))
        return _fault(404, "nothing here")

    def _refused(self, verb: str, path: str, headers: Any) -> Reply | None:
        """In this order, so that who does not know the token learns nothing but that."""
        given = path.partition("?")[0].split("/")[1:2] or [""]
        if not hmac.compare_digest(given[0].encode("utf-8", "replace"), self.token.encode()):
            return _fault(403, "the address is not complete: open the one that kinfolk printed")
        here = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        if headers.get("Host") not in here:
            return _fault(403, f"expected the host {HOST}:{self.port}")
        if headers.get("Origin") not in (None, *(f"http://{name}" for name in here)):
            return _fault(403, "a request of another page")
        if verb == "POST" and (headers.get("Content-Type") or "").partition(";")[0].strip() != "application/json":
            return _fault(415, "expected application/json")
        return None

    def _page(self) -> Reply:
        part = Part("label", "Do these two match?", {"state": self.state()})
        html = report_html("Which records match?", [part], self.about, connects=True)
        return Reply(200, html, "text/html; charset=utf-8", f"{policy_of(html)}; frame-ancestors 'none'")

    def _answer(self, body: bytes) -> Reply:
        try:
            given = json.loads(body)
            left, right, match = str(given["left"]), str(given["right"]), ANSWERS[given["match"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return _fault(400, 'expected {"left": id, "right": id, "match": "yes", "no" or "unsure"}')
        with self._turn:
            asked = self.loop.ask()
            if asked is None or (asked.left, asked.right) != (left, right):
                return Reply(200, _json(self.state("that pair is not the one asked; nothing was changed")))
            self.loop.tell(asked, match)
            return Reply(200, _json(self.state()))

    def state(self, note: str | None = None) -> dict[str, Any]:
        """All that the page shows."""
        loop = self.loop
        question, estimate = loop.ask(), loop.estimate()
        return {
            "question": None if question is None else _question(question),
            "counts": loop.counts,
            "updates": loop.updates,
            "updating": loop.updating,
            "estimate": None if estimate is None else asdict(estimate),
            "no_estimate": loop.estimate_in_words() if estimate is None else None,
            "note": note,
        }


def _question(question: Question) -> dict[str, Any]:
    fields = []
    for one in question.fields:
        left, right = one.pieces
        sides = {"left": None if one.left is None else left, "right": None if one.right is None else right}
        fields.append({"name": one.name, **sides, "differs": one.differs})
    return {"left": question.left, "right": question.right, "fields": fields, "why": question.why}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _fault(status: int, message: str) -> Reply:
    return Reply(status, _json({"error": message}))


class _Handler(BaseHTTPRequestHandler):
    """Reads a request and writes the reply; what it is about is the server's."""

    owner: LabelServer
    server_version, sys_version = "kinfolk", ""
    protocol_version = "HTTP/1.1"  # the page keeps its connection
    timeout = PATIENCE
    wbufsize, disable_nagle_algorithm = -1, True  # a reply is one packet, sent at once

    def parse_request(self) -> bool:
        if self.owner.closed:  # by a connection of before
            raise ConnectionResetError
        return super().parse_request()

    def do_GET(self) -> None:
        self._send(self.owner.reply("GET", self.path, self.headers, b""))

    def do_POST(self) -> None:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= LARGEST:
            self.close_connection = True  # what follows is not read
            self._send(_fault(413, f"expected at most {LARGEST} bytes"))
            return
        self._send(self.owner.reply("POST", self.path, self.headers, self.rfile.read(length)))

    def _send(self, reply: Reply) -> None:
        data = reply.body.encode("utf-8", "replace")
        self.send_response(reply.status)
        named = {"Content-Type": reply.kind, "Content-Length": str(len(data)), "Content-Security-Policy": reply.policy}
        for name, value in {**named, **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):  # the browser went away; what it had answered is on disk
            log.debug("a browser went away")

    def log_message(self, format: str, *given: Any) -> None:
        log.debug("labelling page: %s", self.requestline.replace(self.owner.token, "TOKEN"))
