"""Secrets in the environment of a run: those that its template names, and no trace of their values."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from hashlib import md5
from pathlib import Path
from uuid import UUID

import pytest

from storage.errors import SecretUnreadable
from storage.ids import new_id
from storage.model import Outcome
from supervisors.engine.run import RunError, RunResult
from tests.git_repository import GitRepository
from tests.hostsvc.process_harness.test_harness import Stores, World, execute
from tests.storage import factories

VALUE = "sk-live-ß-0123456789"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END KEY-----\n"
SHOW = 'printf "%s" "$MODEL_KEY" | md5sum; echo "$MODEL_KEY"; echo "$PEM" | sed -n 2p; echo "${OTHER:-none}"'


@dataclass
class SecretStores(Stores):
    """Stores with secrets of the template's organization."""

    values: dict[str, str] = field(default_factory=dict)

    async def get_values(
        self, organization_id: UUID, template_id: UUID | None, names: Collection[str]
    ) -> dict[str, str]:
        assert (organization_id, template_id) == (self.agent.organization_id, self.agent.template_id)
        if "BROKEN" in names:
            raise SecretUnreadable("secret.value of 7", "it was changed, or written at another place")
        return {name: self.values[name] for name in names if name in self.values}


@pytest.fixture
def world(tmp_path: Path) -> World:
    organization_id = new_id()
    template = factories.template(organization_id, environment_secrets=("MODEL_KEY", "PEM"))
    agent = factories.agent(organization_id, template_id=template.id, harness_git_ref=None, system_prompt="")
    values = {"MODEL_KEY": VALUE, "PEM": PEM, "OTHER": "not named"}
    repository = GitRepository.make(tmp_path / "agents")
    repository.commit(run=SHOW)
    return World(SecretStores(agent, template, values=values), repository, tmp_path)


def named(world: World, *names: str) -> None:
    assert world.stores.template is not None
    world.stores.template = replace(world.stores.template, environment_secrets=names)


async def test_named_secrets_are_variables_and_hidden_in_output(world: World) -> None:
    assert await execute(world) == RunResult(Outcome.ENDED)
    checksum, key, line, other = world.metadata["output"].splitlines()
    assert checksum.split()[0] == md5(VALUE.encode()).hexdigest()  # noqa: S324
    assert (key, line, other) == ("[secret]", "[secret]", "none")
    assert VALUE not in str(world.stores.spans)


async def test_error_of_failed_process_hides_the_secret(world: World) -> None:
    world.repository.commit(run='echo "bad key: $MODEL_KEY"; exit 1')
    with pytest.raises(RunError, match=r"^exit code 1: bad key: \[secret\]$"):
        await execute(world)


async def test_missing_secret_fails_the_run_before_its_process(world: World) -> None:
    named(world, "MODEL_KEY", "CRM_KEY", "ABSENT")
    with pytest.raises(RunError) as failure:
        await execute(world)
    assert str(failure.value) == (
        "environment_secrets of the template names a secret that does not exist: ABSENT, CRM_KEY; "
        "create it, or remove the name."
    )
    [span] = world.stores.spans
    assert span.span.error == str(failure.value)


async def test_unreadable_secret_fails_the_run_with_its_place(world: World) -> None:
    named(world, "BROKEN")
    with pytest.raises(RunError, match=r"cannot be decrypted \(secret\.value of 7\); set it"):
        await execute(world)


async def test_longest_secrets_fit_the_environment(world: World) -> None:
    names = [f"LONG_{number}" for number in range(24)]
    assert isinstance(world.stores, SecretStores)
    world.stores.values = dict.fromkeys(names, "x" * 65536)
    named(world, *names)
    world.repository.commit(run='echo "${#LONG_0} ${#LONG_23}"')
    assert await execute(world) == RunResult(Outcome.ENDED)
    assert world.metadata["output"] == "65536 65536\n"


async def test_variables_of_the_service_precede_secrets(world: World) -> None:
    assert isinstance(world.stores, SecretStores)
    world.stores.values = {"HOSTSVC_URL": "https://evil.example", "HOME": "/tmp"}  # noqa: S108
    named(world, "HOSTSVC_URL", "HOME")
    world.repository.commit(run='echo "$HOSTSVC_URL"; case $HOME in */homes/*) echo own;; esac')
    assert await execute(world) == RunResult(Outcome.ENDED)
    assert world.metadata["output"].splitlines() == ["http://127.0.0.1:8080", "own"]


async def test_process_finds_where_its_spans_go(world: World) -> None:
    world.repository.commit(run="env | grep -e OTEL_ -e TRACEPARENT | sort")
    await execute(world)
    variables = dict(line.split("=", 1) for line in world.metadata["output"].splitlines())
    span = world.stores.spans[-1].span
    assert span.id == span.trace_id
    assert variables == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": variables["OTEL_EXPORTER_OTLP_ENDPOINT"],
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20[run token]",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "none",
        "TRACEPARENT": f"00-{span.trace_id.hex}-{span.id.hex[16:]}-01",
    }
    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"].startswith("http")


async def test_token_of_the_run_goes_to_no_other_receiver(world: World) -> None:
    assert isinstance(world.stores, SecretStores)
    world.stores.values["OTEL_EXPORTER_OTLP_ENDPOINT"] = "https://otlp.example.org"
    named(world, "OTEL_EXPORTER_OTLP_ENDPOINT")
    world.repository.commit(run="env | grep -e OTEL_ -e TRACEPARENT | sort | sed s/=.*//")
    await execute(world)
    assert world.metadata["output"].split() == ["OTEL_EXPORTER_OTLP_ENDPOINT", "TRACEPARENT"]
