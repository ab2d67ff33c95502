"""`hostsvc status` in this process; `tests/acceptance/test_status_command.py` runs it against a service."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from hostsvc.cli.status_client import AgentNotFound, DatabaseLost, StatusUnavailable, status_client
from hostsvc.cli.status_command import (
    PHASES_AND_STATUSES,
    Selection,
    find_agent,
    show_status,
    url_of,
)
from hostsvc.config import ServerSettings
from storage.errors import DatabaseUnavailable
from tests.hostsvc.cli.answers import serving_json
from tests.hostsvc.cli.test_status_screen import past_snapshot, service_status, snapshot

AGENT = UUID(int=7)
OTHER = UUID(int=8)
TOKEN = "operators-only"
ALIVE = {"/healthz": {"status": "ok"}, "/status/": {}}
BY_NAME = "/status/supervisors/?limit=20&name="


async def fetch_token() -> str:
    return TOKEN


@pytest.mark.parametrize(
    ("server", "url"),
    [
        (ServerSettings(), "http://127.0.0.1:8080"),
        (ServerSettings(host="0.0.0.0"), "http://127.0.0.1:8080"),  # noqa: S104
        (ServerSettings(host="::", port=80), "http://[::1]:80"),
        (ServerSettings(host="::1"), "http://[::1]:8080"),
        (ServerSettings(base_url="https://agents.example.org"), "http://127.0.0.1:8080"),
    ],
)
def test_url_of_is_where_this_machine_reaches_the_service(server: ServerSettings, url: str) -> None:
    assert url_of(server) == url


def test_url_of_any_free_port_is_unknown() -> None:
    with pytest.raises(StatusUnavailable, match=r"^server\.port is 0, .* set --url to the address"):
        url_of(ServerSettings(port=0))


async def test_show_status_asks_for_no_token_before_a_service_answers() -> None:
    async def refuse_token() -> str:
        raise AssertionError("the token was fetched")

    async with serving_json({}) as url:
        pass
    with pytest.raises(StatusUnavailable, match="no service answers"):
        await show_status(url, refuse_token, Selection(str(AGENT)), watch=False)


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (["Grace"], "grace", AGENT),
        (["Grace", "GRACE"], "GRACE", OTHER),
        ([], str(OTHER).upper(), OTHER),
    ],
)
async def test_agent_is_found_by_id_or_unique_name(names: list[str], given: str, expected: UUID) -> None:
    ids = (AGENT, OTHER)
    matches = [{"agent": str(agent), "name": name} for agent, name in zip(ids, names, strict=False)]
    async with serving_json({BY_NAME + given: matches}) as url, status_client(url) as client:
        assert await find_agent(client, given) == expected


async def test_name_of_several_agents_is_refused_with_their_ids() -> None:
    matches = [snapshot(agent=str(AGENT), name="Grace"), snapshot(agent=str(OTHER), name="Grace")]
    async with serving_json({f"{BY_NAME}Grace": matches}) as url, status_client(url) as client:
        with pytest.raises(AgentNotFound) as caught:
            await find_agent(client, "Grace")
    heading, first, second = caught.value.messages
    assert heading == "2 agents have the name Grace; give one of the ids:"
    assert first.startswith(f"{AGENT}  organization ")
    assert second.startswith(str(OTHER))
    assert caught.value.exit_code == 2


async def test_unknown_name_is_refused_with_similar_ones() -> None:
    answers = {f"{BY_NAME}Linux": [], "/status/supervisors/?limit=200": [snapshot(name="Linus")]}
    async with serving_json(answers) as url, status_client(url) as client:
        with pytest.raises(AgentNotFound, match=r"no agent with the name Linux; did you mean Linus\?"):
            await find_agent(client, "Linux")


@pytest.mark.parametrize("word", PHASES_AND_STATUSES)
async def test_every_phase_and_status_selects_agents(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    key = "status" if word == "sleeping" else "phase"
    answers = {
        **ALIVE,
        "/status/": service_status(),
        f"/status/supervisors/?limit=20&{key}={word}": [snapshot()],
    }
    async with serving_json(answers, TOKEN) as url:
        assert await show_status(url, fetch_token, Selection(phase=word), watch=False) == 0
    assert "Grace: Asleep" in capsys.readouterr().out


async def test_service_is_shown_from_memory_while_its_database_is_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = {**ALIVE, "/status/": service_status(), "/status/supervisors/?limit=20": 503}
    async with serving_json(answers, TOKEN) as url:
        assert await show_status(url, fetch_token, Selection(), watch=False) == 5
    printed = capsys.readouterr().out
    assert "state        ready" in printed
    assert "The agents cannot be shown, because the database does not answer." in printed


@pytest.mark.parametrize(("readiness", "kind"), [(503, DatabaseLost), ({}, StatusUnavailable)])
async def test_unreadable_token_is_reported_with_the_state_of_the_service(
    readiness: Any, kind: type[StatusUnavailable]
) -> None:
    async def lost_token() -> str:
        raise DatabaseUnavailable("the database cannot be reached: refused")

    async with serving_json({**ALIVE, "/readyz": readiness}, TOKEN) as url:
        with pytest.raises(StatusUnavailable, match=r"set HOSTSVC__OPERATOR__TOKEN to the token") as caught:
            await show_status(url, lost_token, Selection(), watch=False)
    assert type(caught.value) is kind


async def test_show_status_prints_one_agent_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 11, 21, 3, tzinfo=UTC)
    path = f"/status/supervisors/{AGENT}/?at=2026-11-21T03:00:00.000000Z"
    async with serving_json({**ALIVE, path: past_snapshot(agent=str(AGENT))}, TOKEN) as url:
        assert await show_status(url, fetch_token, Selection(str(AGENT), at=at), watch=False) == 0
    printed = capsys.readouterr().out
    assert "phase         asleep since 2026-11-21 02:00:00 UTC" in printed
    assert "why           Asleep until something woke it." in printed
