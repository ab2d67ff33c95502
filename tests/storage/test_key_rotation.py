"""Key rotation: every secret is encrypted with the first key, while the service writes."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from storage import key_rotation
from storage.agents.secrets import Secret
from storage.agents.templates import Templates
from storage.encryption import KEY_BYTES, SecretCipher
from storage.identity.instance import Instance
from storage.key_rotation import (
    CONFIGS,
    HOOKS,
    INSTALLATION,
    OLD_HOOKS,
    SECRETS,
    TEMPLATES,
    WEBHOOKS,
    KeyRotation,
    RotationResult,
)
from storage.model import Template
from storage.postgres.pool import Pool
from storage.storage import Storage
from storage.toolbox import AdapterConfig, Adapters
from supervisors.clock import SystemClock
from tests.leaks import contents_by
from tests.storage.factories import NOW, adapter, hook, stored_organization, template, webhook
from tests.storage.toolbox.test_adapter_configs import adapter_config

OLD_KEY, NEW_KEY = b"o" * KEY_BYTES, b"n" * KEY_BYTES
CLEAR, OLD, BOTH, NEW = (SecretCipher(keys) for keys in ([], [OLD_KEY], [NEW_KEY, OLD_KEY], [NEW_KEY]))


def storage_with(pool: Pool, cipher: SecretCipher) -> Storage:
    return Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep, cipher=cipher)


async def stored_secrets(pool: Pool, cipher: SecretCipher, name: str) -> tuple[Template, AdapterConfig]:
    """Store a template with a secret, an adapter config with another, and a secret for code and tools."""
    storage = storage_with(pool, cipher)
    desk = template((await stored_organization(pool)).id, tool_call_secret=f"secret of {name}")
    await storage.templates.insert(desk)
    weather = adapter(desk.organization_id)
    await Adapters(pool).insert(weather)
    config = adapter_config(desk, weather, config={"password": f"config of {name}", "deep": ["ß", None, 1.5]})
    await storage.adapter_configs.insert(config)
    await storage.secrets.insert(secret_of(desk), f"value of {name}")
    await storage.webhooks.insert(webhook(desk.organization_id), f"signing {name}")
    await storage.hooks.insert(
        hook(desk.organization_id, secret=f"hooked {name}", old_secret=f"hooked before {name}")
    )
    return desk, config


def secret_of(desk: Template) -> Secret:
    """Return a secret of the template, whose id is that of the template."""
    return Secret(desk.id, desk.organization_id, desk.id, "MODEL_KEY", NOW, NOW)


async def value_of(storage: Storage, desk: Template) -> str:
    """Return the value of the template's secret."""
    return (await storage.secrets.get_values(desk.organization_id, desk.id, ["MODEL_KEY"]))["MODEL_KEY"]


async def rotate(pool: Pool, cipher: SecretCipher) -> list[RotationResult]:
    return [result async for result in KeyRotation(pool, cipher).run()]


async def test_rotation_encrypts_everything_with_first_key(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rotation, "BATCH_ROWS", 2)
    monkeypatch.setattr(key_rotation, "BATCH_CONFIGS", 1)
    monkeypatch.setattr(key_rotation, "BATCH_SECRETS", 1)
    token_secret = await Instance(pool, CLEAR).token_secret()
    operator_token = await Instance(pool, OLD).operator_token()
    stored = [
        await stored_secrets(pool, cipher, f"{number}")
        for number, cipher in enumerate((CLEAR, OLD, BOTH, CLEAR))
    ]
    await Templates(pool).insert(template(stored[0][0].organization_id))  # it has no secret

    assert await rotate(pool, BOTH) == [
        RotationResult(INSTALLATION, 2, 2),
        RotationResult(TEMPLATES, 4, 3),
        RotationResult(CONFIGS, 4, 3),
        RotationResult(SECRETS, 4, 3),
        RotationResult(WEBHOOKS, 4, 3),
        RotationResult(HOOKS, 4, 3),
        RotationResult(OLD_HOOKS, 4, 3),
    ]
    assert [result.encrypted for result in await rotate(pool, BOTH)] == [0] * 7

    only_new = storage_with(pool, NEW)
    assert await only_new.instance.token_secret() == token_secret
    assert await only_new.instance.operator_token() == operator_token
    for number, (desk, config) in enumerate(stored):
        assert await value_of(only_new, desk) == f"value of {number}"
        assert await only_new.templates.get(desk.id) == desk
        assert await only_new.adapter_configs.get(config.id) == config
    rows = await contents_by(pool)
    assert "Concierge" in rows
    for secret in (
        token_secret,
        operator_token,
        "secret of",
        "config of",
        "password",
        "value of",
        "signing",
        "hooked",
    ):
        assert secret not in rows


async def test_unreadable_secret_is_reported_and_kept(pool: Pool) -> None:
    await stored_secrets(pool, OLD, "one")
    desk, config = await stored_secrets(pool, CLEAR, "two")
    installation, templates, configs, secrets, webhooks, *hooks = await rotate(pool, NEW)
    assert installation == RotationResult(INSTALLATION, 0, 0)
    assert (templates.total, templates.encrypted, len(templates.unreadable)) == (2, 1, 1)
    assert (configs.total, configs.encrypted, len(configs.unreadable)) == (2, 1, 1)
    assert (secrets.total, secrets.encrypted, len(secrets.unreadable)) == (2, 1, 1)
    assert (webhooks.total, webhooks.encrypted, len(webhooks.unreadable)) == (2, 1, 1)
    assert [(each.total, each.encrypted, len(each.unreadable)) for each in hooks] == [(2, 1, 1)] * 2
    assert "is not in accounts.encryption_keys" in templates.unreadable[0]
    assert [result.unreadable for result in await rotate(pool, BOTH)] == [()] * 7
    assert await storage_with(pool, NEW).templates.get(desk.id) == desk
    assert await storage_with(pool, NEW).adapter_configs.get(config.id) == config


class Interleaved:
    """A pool that makes these writes, each before the first statement that replaces values of its table."""

    def __init__(self, pool: Pool, writes: dict[str, Callable[[], Awaitable[None]]]) -> None:
        self._pool = pool
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    async def fetch(self, sql: str, *args: Any) -> Any:
        for table in [table for table in self._writes if f"UPDATE {table} " in sql]:
            await self._writes.pop(table)()
        return await self._pool.fetch(sql, *args)


@pytest.mark.parametrize("written_by", [BOTH, CLEAR], ids=["service", "another program"])
async def test_write_during_rotation_is_not_lost(pool: Pool, written_by: SecretCipher) -> None:
    desk, config = await stored_secrets(pool, OLD, "one")
    writer = storage_with(pool, written_by)

    async def change_secret() -> None:
        await writer.templates.update(desk.id, {"tool_call_secret": "swordfish"}, NOW)

    async def change_config() -> None:
        await writer.adapter_configs.update(config.id, {"config": ["swordfish"]}, config.updated_at)

    async def change_value() -> None:
        await writer.secrets.update(desk.id, "swordfish", NOW)

    writes = {"template": change_secret, "adapter_config": change_config, "secret": change_value}
    await rotate(Interleaved(pool, writes), BOTH)  # type: ignore[arg-type]
    assert not writes

    only_new = storage_with(pool, NEW)
    changed = await only_new.templates.get(desk.id)
    changed_config = await only_new.adapter_configs.get(config.id)
    assert changed is not None
    assert changed.tool_call_secret == "swordfish"
    assert changed_config is not None
    assert changed_config.config == ["swordfish"]
    assert await value_of(only_new, desk) == "swordfish"
    assert "swordfish" not in await contents_by(pool)
