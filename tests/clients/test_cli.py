"""The command line beyond what docs/client.md shows: credentials, exit codes, what it prints."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hostsvc_client import Hostsvc, cli, manifest
from hostsvc_client.cli import REFUSED, main

from tests.clients.process import Service

Hs = Callable[..., Result]


@pytest.fixture
def hs(shared: Service, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hs:
    """Run `hs` as after `hs login`, without a keyring."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "keyring_or_none", lambda: None)
    for name in ("HOSTSVC_URL", "HOSTSVC_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    login = run("--url", shared.url, "--key", key, "login")
    assert login.output == f"Logged in. The key is in {tmp_path}/hostsvc/credentials.json.\n"
    return run


@pytest.fixture
def agent(hostsvc: Hostsvc) -> Iterator[str]:
    """Yield the name of an agent, whose id is at the service."""
    made = hostsvc.agents.create(name=f"Ada {os.urandom(4).hex()}", model="builtin/inbox")
    yield made.name
    hostsvc.agents.delete(made.id)


def test_login_stores_the_key_for_the_user_alone(hs: Hs, tmp_path: Path, key: str) -> None:
    path = tmp_path / "hostsvc/credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["key"] == key
    assert hs("--json", "agents").output.startswith("[")


def test_login_prefers_the_keyring(
    hs: Hs, shared: Service, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {}

    class Keyring:
        set_password = staticmethod(lambda service, user, secret: kept.update({(service, user): secret}))
        get_password = staticmethod(lambda service, user: kept[service, user])

    monkeypatch.setattr(cli, "keyring_or_none", lambda: Keyring)
    assert "in the keyring" in hs("--url", shared.url, "--key", key, "login").output
    assert kept == {("hostsvc", shared.url): key}
    assert "key" not in json.loads(cli.credentials_file().read_text())
    assert hs("--json", "agents").output.startswith("[")


def test_key_is_not_sent_to_another_address(hs: Hs, shared: Service) -> None:
    other = shared.url.replace("127.0.0.1", "localhost")
    assert "run `hs login`" in hs("--url", other, "agents", code=2).output


def test_exit_codes_tell_what_went_wrong(
    hs: Hs, shared: Service, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hs("trace", "00000000-0000-4000-8000-000000000000", code=1).output == "hs: 404: Not found.\n"
    assert "No such option" in hs("agents", "--colour", code=2).output
    assert "named 'Nobody'" in hs("why", "Nobody", code=1).output
    assert "must be http" in hs("--url", "ftp://x", "--key", "k", "agents", code=2).output
    assert "-1 is not in the range" in hs("agents", "--limit", "-1", code=2).output
    assert "401" in hs("--url", shared.url, "--key", "hsk_wrong", "agents", code=REFUSED).output
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    assert "SOCKS" in hs("agents", code=2).output
    monkeypatch.delenv("ALL_PROXY")
    refused = hs("approve", "0198c0de-0000-7000-8000-000000000000", "--deny", "--answer", "yes", code=2)
    assert "exclude each other" in refused.output


def test_awaited_run_that_has_not_ended_exits_with_four(hs: Hs, agent: str, hostsvc: Hostsvc) -> None:
    late = hs("run", agent, "--wait", "--seconds", "0", code=4)
    assert late.output == "hs: the run has not ended in time\n"
    hostsvc.agents.change(hostsvc.agents.list(name=agent).page()[0].id, paused=True)
    assert hs("run", agent).output == "paused\n"
    assert hs("run", agent, "--wait", code=4).output == "hs: no run has begun: paused\n"


def test_exported_names_and_texts_keep_each_character(hs: Hs, shared: Service, tmp_path: Path) -> None:
    options = ("--url", shared.url, "--key", shared.sign_up("characters@example.org"))
    text = "10\u00a0km \u202e \U0001f469\u200d\U0001f680 \x85 \u2028 \ufeff no: #1 'x' \"y\" {z}\ttab"
    with Hostsvc(shared.url, options[-1]) as client:
        client.agents.create(name=f"- {text}", model="builtin/inbox", system_prompt=f"{text}\n  {text}")
    file = tmp_path / "all.yaml"
    file.write_text(hs(*options, "export").output)
    assert hs(*options, "apply", str(file)).output == "nothing to change\n"
    assert f"- {text}" in manifest.load(file.read_text())["agents"]


def test_agents_beyond_the_limit_are_announced(hs: Hs, agent: str, hostsvc: Hostsvc) -> None:
    other = hostsvc.agents.create(name="Second", model="builtin/inbox")
    assert "--limit shows more" in hs("agents", "--limit", "1").stderr
    assert hs("agents").stderr == ""
    hostsvc.agents.delete(other.id)


@pytest.mark.parametrize("command", ["agents", "tail"])
def test_exit_code_tells_that_nobody_answers(
    hs: Hs, shared: Service, key: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("hostsvc_client.cli.DEADLINE_SECONDS", 1.0)
    result = hs("--url", "http://127.0.0.1:1", "--key", key, command, code=3)
    assert result.output.startswith("hs: no answer from the service: ConnectError")
    assert result.output.endswith(" at http://127.0.0.1:1\n")


def test_notify_with_a_key_has_one_effect(hs: Hs, agent: str, hostsvc: Hostsvc) -> None:
    first = hs("notify", agent, "Order", "--low", "--idempotency-key", agent)
    assert hs("notify", agent, "Order", "--low", "--idempotency-key", agent).output == first.output
    assert hostsvc.notifications.get(first.output.strip()).priority == "low"


def test_approve_lists_decides_and_answers(hs: Hs, agent: str, hostsvc: Hostsvc) -> None:
    handle = hostsvc.agent(hostsvc.agents.list(name=agent).page()[0])
    adapter = hostsvc.adapters.create(name=agent)
    hostsvc.tools.create(adapter=adapter.id, name="refund", url="http://127.0.0.1:9/", approval="always")
    hostsvc.agents.change(handle.id, adapters=[adapter.id])
    refund = handle.call_tool("refund").result["call"]
    question = handle.call_tool("ask_person", question="How much?").result["call"]
    listed = hs("approve").output
    assert refund in listed
    assert "How much?" in listed
    assert hs("approve", refund, "--deny", "--note", "too much").output == "denied\n"
    assert hs("approve", question, "--answer", '"ten"').output in ("due\n", "done\n")
    assert hostsvc.approvals.get(question).answer == "ten"
    assert hs("approve", refund, code=REFUSED).output.startswith("hs: 409")
    assert refund not in hs("approve").output


def test_names_from_the_service_cannot_steer_the_terminal(hs: Hs, hostsvc: Hostsvc) -> None:
    evil = hostsvc.agents.create(name="\x1b[31mEvil\u202e", model="builtin/inbox")
    assert "\x1b" not in hs("agents").output
    assert "\u202e" not in hs("agents").output
    hostsvc.agents.delete(evil.id)


def test_completion_knows_commands_and_names(hs: Hs, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_HS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"hs why {agent[:9].lower()}")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert agent.split()[0] in CliRunner().invoke(main, prog_name="hs").output
    monkeypatch.setenv("HOSTSVC_URL", "http://127.0.0.1:1")
    assert CliRunner().invoke(main, prog_name="hs").exit_code == 0
