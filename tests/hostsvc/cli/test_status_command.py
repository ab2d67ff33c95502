"""`hostsvc status` in this process; `tests/acceptance/test_status_command.py` runs it against a service."""

from uuid import UUID

import pytest

from hostsvc.cli.status_client import StatusUnavailable
from hostsvc.cli.status_command import show_status, url_of
from hostsvc.config import ServerSettings
from tests.hostsvc.cli.answers import serving_json
from tests.hostsvc.cli.test_status_screen import snapshot

AGENT = UUID(int=7)
TOKEN = "operators-only"


async def fetch_token() -> str:
    return TOKEN


@pytest.mark.parametrize(
    ("server", "url"),
    [
        (ServerSettings(), "http://127.0.0.1:8080"),
        (ServerSettings(host="0.0.0.0"), "http://127.0.0.1:8080"),  # noqa: S104
        (ServerSettings(host="::", port=80), "http://[::1]:80"),
        (ServerSettings(host="::1"), "http://[::1]:8080"),
        (ServerSettings(base_url="https://agents.example.org", port=0), "https://agents.example.org"),
    ],
)
def test_url_of_is_where_this_machine_reaches_the_service(server: ServerSettings, url: str) -> None:
    assert url_of(server) == url


def test_url_of_any_free_port_is_unknown() -> None:
    with pytest.raises(StatusUnavailable, match=r"^server\.port is 0, .* set --url to the address"):
        url_of(ServerSettings(port=0))


async def test_show_status_prints_one_agent(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {"/healthz": {"status": "ok"}, f"/status/supervisors/{AGENT}/": snapshot(agent=str(AGENT))}
    async with serving_json(answers, TOKEN) as url:
        await show_status(url, fetch_token, AGENT, None, watch=False)
    printed = capsys.readouterr().out
    assert f"Grace ({AGENT})" in printed
    assert "Asleep until something wakes it." in printed


async def test_show_status_asks_for_no_token_before_a_service_answers() -> None:
    async def refuse_token() -> str:
        raise AssertionError("the token was fetched")

    async with serving_json({}) as url:
        pass
    with pytest.raises(StatusUnavailable, match="no service answers"):
        await show_status(url, refuse_token, AGENT, None, watch=False)
