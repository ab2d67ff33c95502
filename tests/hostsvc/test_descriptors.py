"""The limit of open files, and the connections it leaves room for."""

import resource
from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from hostsvc.config import Config, ServerSettings
from hostsvc.descriptors import connection_settings, connections_within, raise_descriptor_limit


@pytest.fixture
def process_limits() -> Iterator[tuple[int, int]]:
    """Return the limits of this process, and restore them afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_soft_limit_is_raised_to_the_hard_one(process_limits: tuple[int, int]) -> None:
    hard = process_limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    limit = raise_descriptor_limit()
    assert limit == min(hard, 65_536)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limit, hard)


def test_connections_leave_descriptors_for_database_and_runs() -> None:
    config = Config()
    assert connections_within(1024, config) + config.database.pool_size + config.runs.max_concurrent < 1024
    many_runs = replace(config, runs=replace(config.runs, max_concurrent=1000))
    assert connections_within(1024, many_runs) == 256


def test_lowered_maximum_is_logged() -> None:
    with capture_logs() as logged:
        settings = connection_settings(Config(), 1024)
    assert settings.max_connections == connections_within(1024, Config())
    [line] = logged
    assert (line["configured"], line["open_files"]) == (10_000, 1024)
    with capture_logs() as logged:
        assert connection_settings(Config(), 65_536).max_connections == 10_000
    assert logged == []


def test_only_https_addresses_get_strict_transport_security() -> None:
    for base_url, is_https in (("https://a.example", True), ("http://a.example", False), ("", False)):
        config = replace(Config(), server=ServerSettings(base_url=base_url))
        assert connection_settings(config, 65_536).is_https is is_https
