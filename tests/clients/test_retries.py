"""When a call is repeated, how often and for how long, against a server that answers what the test says."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hostsvc_client import Hostsvc, HostsvcError, errors
from hostsvc_client import _base as base
from hostsvc_client.errors import Conflict, ConnectionFailed, NotFound, ServiceFailed, TooManyRequests

CUT = 0
SETTINGS = base.Settings("http://x", deadline=20.0)
AGENT = "01a1f8ac-fdd2-7588-b64e-d17cf980d4ff"
NOTIFICATION = {"id": AGENT, "title": "Hello", "colour": "green", "priority": "urgent"}


@dataclass
class Server:
    """Answers with these statuses, one after the other; 0 cuts the connection."""

    statuses: list[int]
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = field(default_factory=lambda: NOTIFICATION)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def answering(*statuses: int, **headers: str) -> Iterator[Server]:
    server = Server([*statuses], headers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.paths.append(self.path)
            server.requests.append((self.command, self.headers.get("Idempotency-Key")))
            status = server.statuses.pop(0)
            if status == CUT:
                self.close_connection = True
                return
            body = server.body if isinstance(server.body, bytes) else json.dumps(server.body).encode()
            self.send_response(status)
            for name, value in {**server.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    for method in ("GET", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.url = f"http://127.0.0.1:{listening.server_port}"
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "FIRST_DELAY_SECONDS", 0.001)


def create(server: Server, **options: float) -> None:
    with Hostsvc(server.url, "hsk_key", **options) as client:  # type: ignore[arg-type]
        client.notifications.create(agent=AGENT, title="Hello")


def test_questions_and_decisions_are_repeated_without_a_key() -> None:
    with answering(CUT, 200, CUT, 200) as server, Hostsvc(server.url, "hsk_key") as client:
        client.agents.rewind(agent=AGENT, from_="2026-11-01T00:00Z", to="2026-11-02T00:00Z", patch={})
        client.approvals.decide(AGENT, approve=True)
    assert server.requests == [("POST", None)] * 4


@pytest.mark.parametrize("status", [CUT, 408, 429, 502, 503, 504])
def test_creation_is_repeated_under_the_same_key(status: int) -> None:
    with answering(status, status, 201) as server:
        create(server)
    assert len(server.requests) == 3
    assert len({key for _, key in server.requests}) == 1
    assert server.requests[0][1] is not None


def test_each_creation_has_a_key_of_its_own() -> None:
    with answering(201, 201) as server:
        create(server)
        create(server)
    assert len({key for _, key in server.requests}) == 2


@pytest.mark.parametrize(("status", "error"), [(409, Conflict), (500, ServiceFailed), (404, NotFound)])
def test_refusals_for_good_are_not_repeated(status: int, error: type[HostsvcError]) -> None:
    with answering(status) as server, pytest.raises(error):
        create(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "attempts"), [(CUT, 1), (503, 1), (429, 2), (408, 2)])
def test_post_without_a_key_is_repeated_only_without_effect(status: int, attempts: int) -> None:
    with answering(status, 200) as server, Hostsvc(server.url, "hsk_key") as client:
        try:
            client.webhooks.rotate(AGENT)
        except (ConnectionFailed, ServiceFailed):
            assert attempts == 1
    assert len(server.requests) == attempts


def test_deletion_whose_answer_was_lost_succeeds() -> None:
    with answering(CUT, 404) as server, Hostsvc(server.url, "hsk_key") as client:
        client.agents.delete(AGENT)
    for before in ([], [429]):
        with answering(*before, 404) as server, Hostsvc(server.url) as client, pytest.raises(NotFound):
            client.agents.delete(AGENT)


def test_page_of_another_server_is_no_answer() -> None:
    with answering(200, 200) as server, Hostsvc(server.url, "hsk_key") as client:
        server.body = b"<html>Welcome</html>"
        with pytest.raises(HostsvcError, match="no hostsvc service answers at"):
            list(client.agents.list())
        with pytest.raises(HostsvcError, match="no events can be read"):
            next(iter(client.events()))


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_id_cannot_lead_to_another_operation(name: str) -> None:
    with answering() as server, Hostsvc(server.url, "hsk_key") as client:
        with pytest.raises(ValueError, match="is not an id"):
            client.agents.delete(name)
        with pytest.raises(ValueError, match="is not an id"):
            client.agent(name).stop()
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "http://", "http://x:y", "http://x:0", "http://ada:pw@x", "http://x/?a=1", "http://x#a"],
)
def test_unusable_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"url must be|Port could not be cast") as caught:
        Hostsvc(url, "hsk_key")
    assert "pw" not in str(caught.value)


def test_url_may_have_a_path_and_space_around_it() -> None:
    with answering(201) as server, Hostsvc(f" {server.url}/prefix/\n", "hsk_key") as client:
        client.notifications.create(agent=AGENT, title="Hello")
    assert server.paths == ["/prefix/api/defaults/notifications/"]


def test_blank_idempotency_key_is_left_to_the_service() -> None:
    with answering(400) as server, Hostsvc(server.url, "hsk_key") as client, pytest.raises(errors.Invalid):
        client.notifications.create(agent=AGENT, title="Hello", idempotency_key="")
    assert server.requests == [("POST", "")]


def test_run_that_has_not_begun_cannot_be_awaited() -> None:
    match = "None is not an id"
    with answering() as server, Hostsvc(server.url) as client, pytest.raises(ValueError, match=match):
        client.runs.wait(AGENT, None)  # type: ignore[arg-type]
    assert server.requests == []


def test_unusable_key_is_named_without_showing_it() -> None:
    with answering(201) as server, Hostsvc(server.url, "hsk_key\n") as client:
        client.notifications.create(agent=AGENT, title="Hello")
    for unusable in ("hsk_\u00e9", "hsk_\nx"):
        with Hostsvc(server.url, unusable) as client, pytest.raises(ValueError, match=r"^Authorization may"):
            client.agents.get(AGENT)


def test_waiting_for_a_run_ends_in_time_without_a_service() -> None:
    with answering() as server:
        pass
    with Hostsvc(server.url, "hsk_key") as client, pytest.MonkeyPatch.context() as patched:
        began, slept = time.monotonic(), [0.0]
        patched.setattr("time.monotonic", lambda: began + sum(slept))
        patched.setattr("time.sleep", slept.append)
        patched.setattr(base, "FIRST_DELAY_SECONDS", 4.0)
        with pytest.raises(ConnectionFailed):
            client.runs.wait(AGENT, AGENT, seconds=5)
    assert sum(slept) < 15


def test_attempts_go_on_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    began, slept = time.monotonic(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: began + sum(slept))
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(base, "FIRST_DELAY_SECONDS", base.MAX_DELAY_SECONDS)
    with answering(*[503] * 99) as server, pytest.raises(ServiceFailed):
        create(server)
    assert 110 < sum(slept) <= 120


def test_retry_after_beyond_the_deadline_ends_the_attempts() -> None:
    with answering(429, Retry_After="60") as server, pytest.raises(TooManyRequests) as caught:
        create(server, deadline=30.0)
    assert caught.value.retry_after == 60
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "is_long"),
    [
        ("Fri, 31 Dec 9998 23:59:59 GMT", True),
        ("Fri, 31 Dec 99999999999999999999 23:59:59 GMT", False),
        ("soon", False),
        ("", False),
    ],
)
def test_retry_after_may_be_a_date(text: str, is_long: bool) -> None:
    with pytest.raises(ServiceFailed) as caught:
        base.checked(503, {"retry-after": text}, b"")
    assert ((caught.value.retry_after or 0) > 1e9) is is_long


def test_nobody_listening_is_no_answer_and_without_effect() -> None:
    with answering() as server:
        pass
    with Hostsvc(server.url, "hsk_key", deadline=0.5) as client, pytest.raises(ConnectionFailed) as caught:
        client.webhooks.rotate(AGENT)
    assert not caught.value.is_sent
    assert str(caught.value).endswith(f" at {server.url}")


def test_waits_follow_backoff_retry_after_and_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule itself, over plain values."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    retries = base.Retries(SETTINGS, base.prepare(SETTINGS, "list_agents", ()))
    busy = errors.refusal(503, None, "", 7.0)
    assert retries.delay_after(busy) == 7.0
    now[0] = 15.0
    assert retries.timeout == 5.0
    with pytest.raises(ServiceFailed):
        retries.delay_after(busy)
    cut = errors.ConnectionFailed("cut")
    assert all(base.delay_after(cut, count) <= base.MAX_DELAY_SECONDS for count in range(1, 200))


def test_unknown_fields_and_values_are_kept() -> None:
    with answering(201) as server, Hostsvc(server.url, "hsk_key") as client:
        made = client.notifications.create(agent=AGENT, title="Hello")
    assert (made.unknown, made.priority.value, made.to_dict()) == (
        {"colour": "green"},
        "urgent",
        NOTIFICATION,
    )
    assert made.body is None  # an older service left it out
