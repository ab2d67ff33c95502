"""Event webhooks: their secrets, and when they are switched off."""

from dataclasses import replace
from datetime import timedelta

import pytest

from storage.delivery.outbox import (
    NO_WEBHOOK,
    SWITCHED_OFF,
    Attempt,
    DisabledWebhook,
    DueDelivery,
    Outbox,
)
from storage.delivery.webhooks import MAX_OLD_SECRETS, OLD_SECRET_LIFETIME, Webhook, Webhooks
from storage.encryption import KEY_BYTES, SecretCipher
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, stored_organization, webhook

SECRET, NEW_SECRET = "whsec_b2xk", "whsec_bmV3"
FIVE_DAYS = timedelta(days=5)
FAILED = Attempt(failed_at=NOW, status=410, error="The receiver answered 410.")

EVENTS = "SELECT type, organization_id, resource_id, actor, data FROM event"


@pytest.fixture
def webhooks(pool: Pool) -> Webhooks:
    return Webhooks(pool)


@pytest.fixture
def outbox(pool: Pool) -> Outbox:
    return Outbox(pool)


@pytest.fixture
async def hook(pool: Pool, webhooks: Webhooks) -> Webhook:
    stored = webhook((await stored_organization(pool)).id)
    await webhooks.insert(stored, SECRET)
    return stored


async def only_due(outbox: Outbox, now: object = NOW) -> DueDelivery:
    [due] = await outbox.list_due(now, limit_per_receiver=10, limit=10)  # type: ignore[arg-type]
    return due


async def attempted(outbox: Outbox, hook: Webhook, attempt: Attempt, now: object) -> DisabledWebhook | None:
    """Store a delivery for the webhook, and the outcome of its only attempt."""
    await outbox.insert_test(hook.id, now)  # type: ignore[arg-type]
    return await outbox.record(await only_due(outbox, now), attempt, now)  # type: ignore[arg-type]


async def test_old_secret_signs_for_a_day_after_rotation(
    webhooks: Webhooks, outbox: Outbox, hook: Webhook
) -> None:
    await outbox.insert_test(hook.id, NOW)
    assert (await only_due(outbox)).secrets == (SECRET,)
    assert await webhooks.rotate_secret(hook.id, NEW_SECRET, NOW)
    assert (await only_due(outbox, NOW + OLD_SECRET_LIFETIME - SECOND)).secrets == (NEW_SECRET, SECRET)
    assert (await only_due(outbox, NOW + OLD_SECRET_LIFETIME)).secrets == (NEW_SECRET,)


async def test_secrets_of_a_day_sign_up_to_a_limit(webhooks: Webhooks, outbox: Outbox, hook: Webhook) -> None:
    await outbox.insert_test(hook.id, NOW)
    for number in range(MAX_OLD_SECRETS):
        assert await webhooks.rotate_secret(hook.id, f"secret {number}", NOW + number * MINUTE)
    assert not await webhooks.rotate_secret(hook.id, "one too many", NOW + HOUR)
    secrets = (await only_due(outbox, NOW + HOUR)).secrets
    assert secrets == ("secret 4", "secret 3", "secret 2", "secret 1", "secret 0", SECRET)
    assert await webhooks.rotate_secret(hook.id, NEW_SECRET, NOW + OLD_SECRET_LIFETIME)


async def test_secrets_are_encrypted_each_for_its_row(pool: Pool) -> None:
    cipher = SecretCipher([b"k" * KEY_BYTES])
    webhooks, outbox = Webhooks(pool, cipher), Outbox(pool, cipher)
    hook = webhook((await stored_organization(pool)).id)
    await webhooks.insert(hook, SECRET)
    await webhooks.rotate_secret(hook.id, NEW_SECRET, NOW)
    await outbox.insert_test(hook.id, NOW)
    assert (await only_due(outbox)).secrets == (NEW_SECRET, SECRET)
    stored = [row["value"] for row in await pool.fetch("SELECT value FROM webhook_secret")]
    assert all(value.startswith("hostsvc:1:") for value in stored)

    await pool.execute("UPDATE webhook_secret SET value = $1", stored[0])
    due = await only_due(outbox)
    assert due.secrets == ()
    assert due.refusal.startswith("the stored secret webhook_secret.value of ")


async def test_delivery_of_deleted_or_inactive_webhook_is_refused(
    webhooks: Webhooks, outbox: Outbox, hook: Webhook
) -> None:
    await outbox.insert_test(hook.id, NOW)
    await webhooks.update(hook.id, {"is_active": False}, NOW)
    assert (await only_due(outbox)).refusal == SWITCHED_OFF
    assert await outbox.insert_test(hook.id, NOW) is None
    await webhooks.delete(hook.id)
    assert (await only_due(outbox)).refusal == NO_WEBHOOK


async def test_webhook_that_fails_for_five_days_is_switched_off(
    pool: Pool, webhooks: Webhooks, outbox: Outbox, hook: Webhook
) -> None:
    assert await attempted(outbox, hook, FAILED, NOW) is None
    assert await attempted(outbox, hook, FAILED, NOW + FIVE_DAYS - SECOND) is None
    failing = await webhooks.get(hook.id)
    assert failing == replace(hook, failing_since=NOW)

    disabled = await attempted(outbox, hook, FAILED, NOW + FIVE_DAYS)
    reason = "Every attempt since 2126-11-21 09:00 UTC has failed. The last error: The receiver answered 410."
    assert disabled == DisabledWebhook(hook.id, hook.organization_id, hook.url, reason)
    assert await webhooks.get(hook.id) == replace(
        failing, is_active=False, disabled_at=NOW + FIVE_DAYS, disabled_reason=reason
    )
    events = [dict(row) for row in await pool.fetch(EVENTS)]
    assert {
        "type": "webhook.disabled",
        "organization_id": hook.organization_id,
        "resource_id": hook.id,
        "actor": "",
        "data": {"url": hook.url, "error": "The receiver answered 410."},
    } in events


async def test_success_and_new_url_forget_failures(webhooks: Webhooks, outbox: Outbox, hook: Webhook) -> None:
    await attempted(outbox, hook, FAILED, NOW)
    await attempted(outbox, hook, Attempt(delivered_at=NOW, status=204), NOW + HOUR)
    assert await webhooks.get(hook.id) == hook

    await attempted(outbox, hook, FAILED, NOW)
    await outbox.insert_test(hook.id, NOW)
    due = await only_due(outbox)
    await webhooks.update(hook.id, {"url": "https://new.example/"}, NOW)
    await outbox.record(due, FAILED, NOW)
    assert await webhooks.get(hook.id) == replace(hook, url="https://new.example/")
