"""A harness to copy: an agent of hostsvc from waking to sleeping. It needs only the standard library.

hostsvc starts it for each run (`docs/harness.md`). Put your model and your tools into `answer`.
"""

import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

AGENT, RUN = os.environ["HOSTSVC_AGENT_ID"], os.environ["HOSTSVC_RUN_ID"]
MODEL = "example/echo"


class Refused(Exception):
    """A response other than success; `code` is the error code of a tool."""

    def __init__(self, status: int, answer: dict) -> None:
        super().__init__(f"{status}: {json.dumps(answer)}")
        self.code = answer.get("error", {}).get("code", "")


class Service:
    """A client of the REST API with the token of this run; it records steps below the span `parent`."""

    def __init__(self, url: str, token: str, parent: str) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.netloc, timeout=60)
        self._path = parts.path
        self._parent = parent
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path: str, **body: object) -> dict:
        self._connection.request("POST", self._path + path, json.dumps(body), self._headers)
        response = self._connection.getresponse()
        content = json.load(response)
        if response.status >= 300:
            raise Refused(response.status, content)
        return content

    def call(self, tool: str, **arguments: object) -> object:
        """Call a tool and return its result."""
        return self.post(f"/api/cloud/agents/{AGENT}/tools/{tool}/", **arguments)["result"]

    @contextmanager
    def span(self, name: str, span_type: str, **metadata: object) -> Iterator[None]:
        """Record a step of the run in its trace."""
        started_at, error = datetime.now(UTC).isoformat(), ""
        try:
            yield
        except Exception as failure:
            error = str(failure)
            raise
        finally:
            ended_at = datetime.now(UTC).isoformat()
            step = {"started_at": started_at, "ended_at": ended_at, "error": error, "metadata": metadata}
            place = {"trace": RUN, "parent": self._parent}
            self.post("/api/tracing/spans/", name=name, span_type=span_type, **step, **place)


def answer(service: Service, notification: dict) -> str:
    """Decide what to do about a notification. Ask your model here, and report its usage."""
    with service.span(f"chat {MODEL}", "llm", about=notification["id"]):
        thought = f"Noted: {notification['title']}"
    usage = {"input_tokens": 120, "output_tokens": 8, "cost_usd": 0.0004}
    service.post(f"/api/cloud/agents/{AGENT}/usage/", model=MODEL, trace=RUN, **usage)
    return thought


def handle_all(service: Service) -> int:
    """Handle all uncleared notifications, high priority first. Return their number."""
    notifications = service.call("list_notifications")
    for notification in notifications:
        print(answer(service, notification))
        with service.span("execute_tool clear_notification", "tool"):
            service.call("clear_notification", notification_id=notification["id"])
    return len(notifications)


def sleep(service: Service) -> bool:
    """End the run. Return False if a high-priority notification is uncleared."""
    try:
        service.call("sleep", hours=24)
    except Refused as refusal:
        if refusal.code != "uncleared_high_priority":
            raise
        return False
    return True


def main() -> None:
    context = json.load(sys.stdin)
    print(f"{context['name']} was woken: {context['wake_reason']}")
    service = Service(os.environ["HOSTSVC_URL"], os.environ["HOSTSVC_RUN_TOKEN"], context["span"])
    handled = handle_all(service)
    while not sleep(service):
        handled += handle_all(service)
    # For a short time the token can still write the trace of the run, but nothing else.
    service.post(f"/api/tracing/traces/{RUN}/end/", metadata={"handled": handled})


if __name__ == "__main__":
    main()
