"""The harness of docs/client.md, run by the service for an agent."""

import re
import sys
from pathlib import Path

import pytest
from hostsvc_client import Hostsvc, models

from tests.clients.process import Service
from tests.forked_processes import ForkServer
from tests.git_repository import GitRepository
from tests.paths import DOCS

pytestmark = pytest.mark.slow

PROGRAMS = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_documented_harness_handles_what_waits(
    database_url: str, fork_server: ForkServer | None, tmp_path: Path
) -> None:
    [program] = [each for each in PROGRAMS.findall((DOCS / "client.md").read_text()) if "current_run" in each]
    repository = GitRepository.make(tmp_path / "agents")
    repository.commit(run=program)
    service = Service(
        tmp_path,
        database_url,
        fork_server,
        '[harness]\nkind = "process"\ncontainment = "none"\n'
        f'repository = "{repository.path}"\ncache_dir = "{tmp_path / "cache"}"\n'
        f'command = ["{sys.executable}", "-B", "run.py"]\n',
    )
    service.start()
    try:
        with Hostsvc(service.url, service.sign_up("harness@example.org")) as client:
            agent = client.agent(client.agents.create(name="Ada", model="any/model"))
            agent.notify("A parcel is lost")
            ended = next(iter(agent.events(since=0, type=["run.ended"])))
            assert ended.run is not None
            run = client.runs.wait(agent.id, ended.run)
            assert (run.outcome, run.error) == (models.Outcome.SLEPT, "")
            spans = client.traces.get(run.trace, expand="metadata").spans
            [step] = [span for span in spans if span.name == "think"]
            assert step.metadata == {"thought": "Noted: A parcel is lost"}
            assert [each.cleared for each in client.notifications.list(agent=agent.id)] == [True]
    finally:
        service.end()
