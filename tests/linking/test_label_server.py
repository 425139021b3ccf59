"""The labelling page's server: who does not know the address gets nothing, and nonsense changes nothing."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf
from kinfolk.errors import SettingError
from kinfolk.linking.label_server import HOST, LARGEST, LabelServer
from label_world import people, served, start

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabelServer]:
    with served(tmp_path / "labels.csv") as running:
        yield running


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelServer]:
    """For what is refused: one server for all of it, which none of it changes."""
    with served(tmp_path_factory.mktemp("refusing") / "labels.csv") as running:
        yield running
        assert sum(ask(running)["counts"].values()) == 0


def send(
    server: LabelServer, verb: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=30)
    connection.request(verb, path, body, headers or {})
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    plain = reply.headers.get_content_type() == "application/json"
    return reply.status, json.loads(data) if plain else data.decode(), reply


def ask(server: LabelServer, what: str = "state", body: object = None) -> Any:
    """A request of the page itself."""
    data = None if body is None else json.dumps(body).encode()
    status, answer, _ = send(server, "GET" if body is None else "POST", f"/{server.token}/{what}", data, JSON)
    assert status == 200, answer
    return answer


def answer(state: Any, match: str = "yes") -> dict[str, str]:
    return {"left": state["question"]["left"], "right": state["question"]["right"], "match": match}


def test_questions_are_answered_one_after_the_other(server: LabelServer, tmp_path: Path) -> None:
    state = ask(server)
    shown = {one["name"]: one for one in state["question"]["fields"]}
    assert list(shown) == list(people().columns) and state["counts"] == {"yes": 0, "no": 0, "unsure": 0}
    after = ask(server, "answer", answer(state, "no"))
    assert after["counts"]["no"] == 1 and after["question"] != state["question"]
    assert (tmp_path / "labels.csv").read_text().count(",no,") == 1
    assert after["estimate"] is None
    assert after["no_estimate"] == "an estimate needs 10 answers of yes or no; there are 1"
    back = ask(server, "back", {})
    assert back["counts"]["no"] == 0 and answer(back) == answer(state)
    assert ask(server, "back", {})["note"] == "there is no answer to take back"


def test_ten_answers_give_an_estimate(server: LabelServer) -> None:
    state = ask(server)
    for number in range(10):
        state = ask(server, "answer", answer(state, "no" if number % 2 else "yes"))
    assert {"lower", "f1", "upper", "answers"} == set(state["estimate"]) and state["no_estimate"] is None


def test_an_answer_that_comes_twice_counts_once(server: LabelServer) -> None:
    """A reply that was lost on its way and is asked for again, or a second window."""
    state = ask(server)
    once = ask(server, "answer", answer(state))
    again = ask(server, "answer", answer(state, "no"))
    assert again["counts"] == once["counts"] and again["question"] == once["question"]
    assert "nothing was changed" in again["note"]


@pytest.mark.parametrize("path", ["/", "/state", "//state", "/wrong/state", "/wrong/", "/favicon.ico", "/%2e%2e/", "*"])
@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_nothing_without_the_token(refusing: LabelServer, verb: str, path: str) -> None:
    status, told, _ = send(refusing, verb, path, b"{}" if verb == "POST" else None, JSON)
    assert status == 403 and set(told) == {"error"} and refusing.token not in str(told)


def test_a_part_of_the_token_is_not_enough(server: LabelServer) -> None:
    for token in (server.token[:-1], server.token + "x", server.token.swapcase(), "é"):
        assert send(server, "GET", f"/{token.encode('ascii', 'ignore').decode()}/state")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}"]
)
def test_another_host_is_refused(refusing: LabelServer, host: str) -> None:
    """A foreign name that was made to lead to this computer."""
    named = {"Host": host.format(port=refusing.port)}
    assert send(refusing, "GET", f"/{refusing.token}/state", headers=named)[0] == 403


def test_another_page_is_refused(server: LabelServer) -> None:
    state, path = ask(server), f"/{server.token}/answer"
    body = json.dumps(answer(state)).encode()
    assert send(server, "POST", path, body, {**JSON, "Origin": "https://evil.example"})[0] == 403
    assert send(server, "POST", path, body, {"Content-Type": "text/plain"})[0] == 415  # what a form can send
    own = {**JSON, "Origin": f"http://{HOST}:{server.port}"}
    assert send(server, "POST", path, body, own)[0] == 200


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"3", b'"yes"', b"{}", b'{"left": "a", "right": "b", "match": "maybe"}',
    b'{"left": "a", "right": "b", "match": true}', b'{"left": "a", "right": "b", "match": ["yes"]}', b"\xff\xfe",
    b"[" * 60_000, b'{"left": "a", "match": "yes"}',
])  # fmt: skip
def test_nonsense_is_refused_and_changes_nothing(refusing: LabelServer, body: bytes) -> None:
    before = ask(refusing)
    status, told, _ = send(refusing, "POST", f"/{refusing.token}/answer", body, JSON)
    assert status == 400 and "expected" in told["error"]
    after = ask(refusing)
    assert sum(after["counts"].values()) == 0 and after["question"] == before["question"]


def test_ids_that_are_not_asked_change_nothing(server: LabelServer) -> None:
    state = ask(server, "answer", {"left": "nobody", "right": "<script>", "match": "yes"})
    assert sum(state["counts"].values()) == 0 and "nothing was changed" in state["note"]


def test_what_is_too_long_or_elsewhere_is_refused(server: LabelServer) -> None:
    path = f"/{server.token}/answer"
    assert send(server, "POST", path, b"x" * (LARGEST + 1), JSON)[0] == 413
    assert send(server, "POST", path, b"", {**JSON, "Content-Length": "-5"})[0] == 413
    assert send(server, "GET", f"/{server.token}/answer")[0] == 404
    assert send(server, "POST", f"/{server.token}/", b"{}", JSON)[0] == 404
    assert send(server, "GET", f"/{server.token}/../state")[0] == 404
    assert send(server, "PUT", path, b"{}", JSON)[0] == 501


def test_the_page_allows_nothing_but_itself(server: LabelServer) -> None:
    status, page, reply = send(server, "GET", f"/{server.token}/")
    policy = reply.headers["Content-Security-Policy"]
    assert status == 200 and page.startswith("<!doctype html>")
    for part in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "script-src 'sha256-"):
        assert part in policy
    assert reply.headers["Cache-Control"] == "no-store" and reply.headers["Referrer-Policy"] == "no-referrer"
    assert server.token not in page


def test_a_browser_that_goes_away_does_no_harm(server: LabelServer, tmp_path: Path) -> None:
    state = ask(server)
    body = json.dumps(answer(state)).encode()
    head = f"POST /{server.token}/answer HTTP/1.1\r\nHost: {HOST}:{server.port}\r\nContent-Type: application/json\r\n"
    for length in (len(body), len(body) + 5):  # away before the reply; away before all of the answer was sent
        with socket.create_connection((HOST, server.port)) as gone:
            gone.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
            gone.shutdown(socket.SHUT_WR)
            gone.recv(1)
    state = ask(server)
    assert state["counts"]["yes"] == 1
    assert (tmp_path / "labels.csv").read_text().count(",yes,") == 1


def test_a_disk_that_is_full_is_told_and_the_question_stays(server: LabelServer, monkeypatch: Any) -> None:
    state = ask(server)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("kinfolk.linking.answers.os.fsync", full)
        body = json.dumps(answer(state)).encode()
        status, told, _ = send(server, "POST", f"/{server.token}/answer", body, JSON)
    assert status == 500 and "No space left on device; make room and answer again" in told["error"]
    after = ask(server)
    assert after["counts"]["yes"] == 0 and after["question"] == state["question"]
    assert ask(server, "answer", answer(state))["counts"]["yes"] == 1


def test_it_listens_on_this_computer_alone(server: LabelServer) -> None:
    assert server.address == f"http://127.0.0.1:{server.port}/{server.token}/" and len(server.token) >= 32
    assert server._http.socket.getsockname()[0] == "127.0.0.1"
    with served(None) as other:
        assert other.token != server.token


def test_a_port_in_use_says_what_to_do(server: LabelServer) -> None:
    loop = kf.ActiveLinker(start(), people())
    with pytest.raises(SettingError, match=f"port {server.port} of 127.0.0.1 is in use .* leave `port` out"):
        LabelServer(loop, port=server.port)
    for port in (-1, 1 << 16, "80"):
        with pytest.raises(SettingError, match="a port from 1 to 65535, or 0"):
            LabelServer(loop, port=port)  # type: ignore[arg-type]
