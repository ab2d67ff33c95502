"""What all resources share: requests that are repeated, lists in pages, and events without end."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hostsvc_client import _base, errors
from hostsvc_client._base import Call, Options, prepare, result_of
from hostsvc_client._decode import decoder

if TYPE_CHECKING:
    import datetime as dt

    from typing_extensions import Self, Unpack

    from hostsvc_client import models
    from hostsvc_client._sync_http import Http

T = TypeVar("T")


class Pages(Generic[T]):
    """A list, fetched page by page while it is iterated."""

    def __init__(self, client: Client, call: Call) -> None:
        self._client, self._call = client, call

    def __iter__(self) -> Iterator[T]:
        call: Call | None = self._call
        while call is not None:
            reply = self._client._send(call)
            for item in result_of(call, reply):
                yield item
            call = call.next_page(reply)

    def page(self) -> list[T]:
        """Return the first page only."""
        return list(result_of(self._call, self._client._send(self._call)))


class Client:
    """What a client does whatever the operation is."""

    def __init__(
        self, url: str | None = None, api_key: str | None = None, **options: Unpack[Options]
    ) -> None:
        """Read what is left out from HOSTSVC_URL and HOSTSVC_API_KEY.

        `authorization` is a whole header for other credentials, such as `Token …` of a user.
        """
        from hostsvc_client._sync_http import Http  # not earlier: it takes a while

        self._settings = _base.Settings.of(url, api_key, options)
        self._http: Http = Http()
        self._make_resources()

    def _make_resources(self) -> None:
        raise NotImplementedError

    def with_options(self, **options: Unpack[Options]) -> Self:
        """Return a client with other options on the same connections."""
        changed = object.__new__(type(self))
        changed._settings, changed._http = replace(self._settings, **options), self._http
        changed._make_resources()
        return changed

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, path: Sequence[object], **parts: Any) -> Any:
        call = prepare(self._settings, name, path, **parts)
        return result_of(call, self._send(call))

    def _pages(self, name: str, path: Sequence[object], **parts: Any) -> Pages[Any]:
        return Pages(self, prepare(self._settings, name, path, **parts))

    def _send(self, call: Call) -> _base.Reply:
        """Send the call until it is answered for good, or until its time is up."""
        retries = _base.Retries(self._settings, call)
        while True:
            try:
                return self._http.send(call, retries.timeout)
            except (errors.ConnectionFailed, errors.Refused) as error:
                if retries.has_deleted(error):
                    return _base.Reply({}, b"")
                delay = retries.delay_after(error)
            time.sleep(delay)

    def _events(
        self, name: str, path: Sequence[object], since: int | None = None, **parts: Any
    ) -> Generator[models.Event, None, None]:
        """Yield events without end, each once, over as many connections as it takes."""
        from hostsvc_client.models import Event

        call, failures = prepare(self._settings, name, path, **parts), 0
        while True:
            try:
                for kind, data, id_ in self._http.frames(call, since, self._settings.timeout):
                    failures = 0
                    if kind == "reset":
                        raise errors.EventsLost(json.loads(data)["oldest"] - 1)
                    since = int(id_) if id_ else since
                    if data:  # a frame without data moves the position
                        yield decoder(Event)(json.loads(data))
                raise errors.ConnectionFailed("the stream has ended")
            except (errors.ConnectionFailed, errors.Refused) as error:
                failures += 1
                delay = _base.delay_after(error, failures)
            time.sleep(delay)


class Resource:
    """The operations of one resource."""

    def __init__(self, client: Client) -> None:
        self._client = client


class AgentExtras(Resource):
    """What the client adds to the operations of an agent."""

    def __init__(self, client: Client, id: str) -> None:  # noqa: A002
        super().__init__(client)
        self.id = id

    def why(self, *, at: dt.datetime | str | None = None) -> str:
        """Return the sentence that says what the agent is doing, and why; with `at`, what was true then."""
        answer = self._client._call("get_supervisor", (self.id,), query={"at": at})
        return str(answer.why or f"Its phase was {answer.phase}.")

    def notify(
        self, title: str, body: str = "", *, priority: str = "high", idempotency_key: str | None = None
    ) -> models.Notification:
        """Put a notification into the agent's queue, which wakes it unless the priority is low."""
        sent = {"agent": self.id, "title": title, "body": body, "priority": priority}
        made: models.Notification = self._client._call(
            "create_notification", (), body=sent, idempotency_key=idempotency_key
        )
        return made

    def run_to_end(self, *, seconds: float = 3600.0) -> models.Run:
        """Request a run and wait until it has ended, also if it is queued or the service restarts.

        Raise NotEnded if it may not begin, and the errors of `runs.wait`.
        """
        until, last = time.monotonic() + seconds, self._newest_run()
        answer = self._client._call("run_agent", (self.id,), body={})
        run = answer.run
        while run is None:
            if answer.status != "queued" or time.monotonic() > until:
                raise errors.NotEnded(answer)
            time.sleep(1.0)
            newest = self._newest_run()
            run = newest if newest != last else None
        return RunsExtras(self._client).wait(self.id, run, seconds=until - time.monotonic())

    def _newest_run(self) -> str | None:
        runs = self._client._pages("list_runs", (self.id,), query={"limit": 1}).page()
        return runs[0].id if runs else None


class RunsExtras(Resource):
    """What the client adds to the operations of runs."""

    def wait(self, agent: str, run: str, *, seconds: float = 3600.0) -> models.Run:
        """Wait until a run has ended, even if the service restarts.

        Raise NotEnded after `seconds`, or ConnectionFailed or Refused if the service is away then.
        """
        until, answer = time.monotonic() + seconds, None
        while (left := until - time.monotonic()) > 0:
            wait = max(1, min(_base.MAX_WAIT_SECONDS, int(left)))
            client = self._client.with_options(deadline=max(1.0, left - wait))
            answer = client._call("get_run", (agent, run), query={"wait": wait})
            if answer.ended_at is not None:
                ended: models.Run = answer
                return ended
        raise errors.NotEnded(answer)
