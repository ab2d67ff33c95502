"""The pytest plugin: the fixture `world`, its seeds, and the loop that its tests run on."""

import functools
import inspect
from collections.abc import Generator
from typing import Any

import pytest

from hostsvc_testing.remote import RemoteWorld
from hostsvc_testing.world import World

MAX_LINES = 100  # of the history of a world that are shown of a test that failed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hostsvc-seed", type=int, help="run tests of agents with this seed alone")
    parser.addoption("--hostsvc-url", help="run them against this service, with the key in HOSTSVC_API_KEY")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seeds(count): run a test of agents with so many seeds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _is_of_world(metafunc.definition):
        options, mark = metafunc.config.option, metafunc.definition.get_closest_marker("seeds")
        count = mark.args[0] if mark and not options.hostsvc_url else 1
        seeds = range(count) if options.hostsvc_seed is None else [options.hostsvc_seed]
        metafunc.parametrize("world", seeds, indirect=True, ids="seed{}".format)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Let tests of a world run on its loop, whatever runs other tests that are coroutines."""
    collected = yield
    for item in collected if isinstance(collected, list) else ():
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj) and _is_of_world(item):
            item.obj = functools.wraps(item.obj)(functools.partial(_run_in_world, item.obj))
    return collected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show what happened in the world of a test that failed."""
    report, made = (yield), getattr(item, "funcargs", {}).get("world")
    if report.failed and isinstance(made, World):
        lines = str(made.history).splitlines()
        if len(lines) > MAX_LINES:
            lines[MAX_LINES // 2 : -MAX_LINES // 2] = ["…  (world.history has all lines)"]
        report.sections.append((f"World of --hostsvc-seed={made.seed}", "\n".join(lines)))
    return report


def _is_of_world(item: Any) -> bool:
    """Return whether the test uses the fixture of this plugin, and not another one of this name."""
    found = item._fixtureinfo.name2fixturedefs.get("world")
    return bool(found) and found[-1].func.__module__ == __name__


def _run_in_world(test: Any, *args: Any, world: World | RemoteWorld, **fixtures: Any) -> None:
    world.run(test(*args, world=world, **fixtures))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World | RemoteWorld:
    """Return a world of agents: in memory and in virtual time, or that of a service."""
    url = request.config.option.hostsvc_url
    return RemoteWorld(url) if url else World(request.param, request.path.parent)
