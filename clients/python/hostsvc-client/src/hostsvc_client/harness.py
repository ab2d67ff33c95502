"""Code of yours that works for an agent, started by the service for each run (`kind = "process"`).

with current_run() as run:
    for notification in run.tool("list_notifications"):
        with run.step("think", "llm"):
            ...
        run.tool("clear_notification", notification_id=notification["id"])
    run.sleep(hours=24)
"""

import datetime as dt
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hostsvc_client._sync_api import AgentHandle, Hostsvc
from hostsvc_client.errors import Refused


@dataclass(frozen=True)
class Run:
    """The run that this process is."""

    client: Hostsvc
    agent: AgentHandle
    id: str
    context: Mapping[str, Any]
    """What the service says about it: `name`, `wake_reason`, `model`, `system_prompt` and more."""

    def tool(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool of the agent and return its result. Raise Refused with its `code`."""
        return self.agent.call_tool(name, **arguments).result

    @contextmanager
    def step(self, name: str, span_type: str = "other", **metadata: Any) -> Iterator[dict[str, Any]]:
        """Record a step in the trace, with what is put into the yielded metadata, and with its error."""
        started_at, error = dt.datetime.now(dt.timezone.utc), ""
        try:
            yield metadata
        except BaseException as failure:
            error = str(failure) or type(failure).__name__
            raise
        finally:
            self.client.spans.create(
                {
                    "trace": self.id,
                    "parent": self.context["span"],
                    "name": name,
                    "span_type": span_type,
                    "started_at": started_at,
                    "ended_at": dt.datetime.now(dt.timezone.utc),
                    "error": error,
                    "metadata": metadata,
                }
            )

    def sleep(self, **arguments: Any) -> bool:
        """End the run. Return False if a high-priority notification is uncleared: handle it first."""
        try:
            self.tool("sleep", **arguments)
        except Refused as refusal:
            if refusal.code != "uncleared_high_priority":
                raise
            return False
        return True


@contextmanager
def current_run() -> Iterator[Run]:
    """Yield the run that the service has started this process for."""
    with Hostsvc(os.environ["HOSTSVC_URL"], os.environ["HOSTSVC_RUN_TOKEN"]) as client:
        agent = client.agent(os.environ["HOSTSVC_AGENT_ID"])
        yield Run(client, agent, os.environ["HOSTSVC_RUN_ID"], json.load(sys.stdin))
