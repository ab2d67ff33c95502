"""The execution of runs: the harness that the configuration selects, and the credentials of runs."""

from datetime import timedelta
from math import inf
from pathlib import Path

import pytest

from hostsvc.config import Config, ServerSettings
from hostsvc.execution import open_execution, run_credentials
from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from hostsvc.process_harness.harness import ProcessHarness
from hostsvc.process_harness.settings import HarnessSettings
from storage.ids import new_id
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.engine.run import Harness
from supervisors.harness.builtin import BuiltinHarness
from supervisors.settings import RunSettings
from tests.git_repository import GitRepository
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.live_log import LiveLog
from web.credentials.formats import RunTokens

SECRET = "a secret of at least thirty-two bytes"


@pytest.mark.parametrize(
    ("address", "base_url", "url"),
    [
        ("http://127.0.0.1:8080", "", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "", "http://[::1]:8080"),
        ("http://0.0.0.0:8080", "https://agents.example.org", "https://agents.example.org"),
    ],
)
def test_runs_reach_the_service_at_a_usable_address(address: str, base_url: str, url: str) -> None:
    config = Config(server=ServerSettings(base_url=base_url))
    assert run_credentials(config, SECRET, address, SystemClock()).url == url


def test_late_results_come_to_the_address_that_outlives_the_node() -> None:
    node, public = "http://127.0.0.1:40123", "http://0.0.0.0:8080"
    credentials = run_credentials(Config(), SECRET, node, SystemClock(), public)
    assert (credentials.url, credentials.results.base_url) == (node, "http://127.0.0.1:8080")


def test_run_token_is_valid_for_the_longest_run() -> None:
    clock, run_id = HeldClock(), new_id()
    config = Config(runs=RunSettings(max_seconds=3600))
    token = run_credentials(config, SECRET, "http://127.0.0.1:8080", clock).issue_token(run_id)
    issued_at = clock.now()
    assert RunTokens(SECRET).read(token, issued_at + timedelta(hours=2)) == run_id
    assert RunTokens(SECRET).read(token, issued_at + timedelta(hours=4)) is None


async def harness_of(config: Config, pool: Pool) -> Harness:
    clock = SystemClock()
    storage = Storage(pool, on_commit=lambda _: None, on_clear=lambda _: None, sleep=clock.sleep)
    credentials = run_credentials(config, SECRET, "http://127.0.0.1:8080", clock)
    async with (
        open_guarded_http(OutboundSettings(), clock) as outbound,
        open_execution(config, storage, LiveLog(), outbound, clock, credentials, lambda: inf) as execution,
    ):
        return execution.harness


async def test_builtin_harness_is_the_default(pool: Pool) -> None:
    assert isinstance(await harness_of(Config(), pool), BuiltinHarness)


async def test_process_harness_is_opened_if_configured(pool: Pool, tmp_path: Path) -> None:
    repository = GitRepository.make(tmp_path / "agents")
    harness = HarnessSettings(
        kind="process", repository=str(repository.path), command=("true",), cache_dir=tmp_path / "cache"
    )
    assert isinstance(await harness_of(Config(harness=harness), pool), ProcessHarness)
