"""Key rotation: stored secrets are encrypted with the first key, those in clear and those under other keys.

A value is replaced only if it is still the one that was read, so the service may write at the same time.
Each batch is a transaction of its own and skips values that are done, so a rotation may be repeated.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import orjson
from asyncpg import Record

from storage.encryption import (
    OPERATOR_TOKEN,
    TOKEN_SECRET,
    SecretCipher,
    config_of,
    secret_of_hook,
    tool_call_secret_of,
    value_of_secret,
    value_of_webhook_secret,
)
from storage.errors import SecretUnreadable
from storage.postgres.json_values import to_json
from storage.postgres.pool import Pool

BATCH_ROWS = 500  # of templates, event webhooks and hooks
BATCH_SECRETS = 100  # each up to 64 KiB
BATCH_CONFIGS = 16  # each up to a megabyte
FIRST = UUID(int=0)  # comes before all ids

INSTALLATION = "secrets of the installation"
TEMPLATES = "secrets of templates"
CONFIGS = "adapter configs"
SECRETS = "secrets for code and tools"
WEBHOOKS = "secrets of event webhooks"
HOOKS = "secrets of inbound hooks"
OLD_HOOKS = "old secrets of inbound hooks"

GET_INSTANCE = "SELECT token_secret, operator_token FROM instance"

REPLACE_INSTANCE = """
UPDATE instance SET token_secret = coalesce($2, token_secret), operator_token = coalesce($4, operator_token)
WHERE token_secret IS NOT DISTINCT FROM $1 AND operator_token IS NOT DISTINCT FROM $3
RETURNING epoch
"""

LIST = """
SELECT id, {column}::text AS stored FROM {table} WHERE id > $1 AND {column}::text <> '' ORDER BY id LIMIT $2
"""

REPLACE = """
UPDATE {table} t SET {column} = n.replacement::{type}
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS n (id, stored, replacement)
WHERE t.id = n.id AND t.{column}::text = n.stored
RETURNING t.id
"""


@dataclass(frozen=True, slots=True)
class SecretColumn:
    """A column whose values are encrypted, each for the place in its row."""

    kind: str
    table: str
    column: str
    place_of: Callable[[UUID], str]
    batch: int
    type: str = "text"

    @property
    def list(self) -> str:
        return LIST.format(table=self.table, column=self.column)

    @property
    def replace(self) -> str:
        return REPLACE.format(table=self.table, column=self.column, type=self.type)


COLUMNS = (
    SecretColumn(TEMPLATES, "template", "tool_call_secret", tool_call_secret_of, BATCH_ROWS),
    SecretColumn(CONFIGS, "adapter_config", "config", config_of, BATCH_CONFIGS, type="json"),
    SecretColumn(SECRETS, "secret", "value", value_of_secret, BATCH_SECRETS),
    SecretColumn(WEBHOOKS, "webhook_secret", "value", value_of_webhook_secret, BATCH_ROWS),
    SecretColumn(HOOKS, "hook", "secret", secret_of_hook, BATCH_ROWS),
    SecretColumn(OLD_HOOKS, "hook", "old_secret", secret_of_hook, BATCH_ROWS),
)


@dataclass(frozen=True, slots=True)
class RotationResult:
    """The number of secrets of one kind, how many were encrypted, and why others could not be read."""

    kind: str
    total: int
    encrypted: int
    unreadable: tuple[str, ...] = ()


class KeyRotation:
    """Encrypts what is stored with the first key of `cipher`."""

    def __init__(self, pool: Pool, cipher: SecretCipher) -> None:
        self._pool = pool
        self._cipher = cipher

    async def run(self) -> AsyncIterator[RotationResult]:
        """Yield one result for each kind of secret, when all of this kind are done."""
        yield await self._rotate_instance()
        for column in COLUMNS:
            yield await self._rotate_table(column)

    async def _rotate_instance(self) -> RotationResult:
        row = await self._pool.fetchrow(GET_INSTANCE)
        if row is None:
            return RotationResult(INSTALLATION, 0, 0)
        stored = {TOKEN_SECRET: row["token_secret"], OPERATOR_TOKEN: row["operator_token"]}
        replacements: dict[str, str | None] = dict.fromkeys(stored)
        unreadable = []
        for place, text in stored.items():
            try:
                if text is not None and not self._cipher.is_current(text):
                    replacements[place] = self._cipher.encrypt(self._cipher.decrypt(text, place), place)
            except SecretUnreadable as error:
                unreadable.append(str(error))
        pairs = [item for place in stored for item in (stored[place], replacements[place])]
        count = sum(replacement is not None for replacement in replacements.values())
        if count and await self._pool.fetchval(REPLACE_INSTANCE, *pairs) is None:
            return await self._rotate_instance()  # one of them was created in the meantime
        total = sum(text is not None for text in stored.values())
        return RotationResult(INSTALLATION, total, count, tuple(unreadable))

    async def _rotate_table(self, column: SecretColumn) -> RotationResult:
        """Go through the table by id, and again if a row was written between read and replacement."""
        encrypt = partial(
            self._encrypt_json if column.type == "json" else self._encrypt_text, column.place_of
        )
        encrypted, is_complete = 0, False
        while not is_complete:
            total, after, is_complete = 0, FIRST, True
            unreadable: list[str] = []
            while rows := await self._pool.fetch(column.list, after, column.batch):
                total, after = total + len(rows), rows[-1]["id"]
                changes = list(_changes(rows, encrypt, unreadable))
                if changes:
                    replaced = await self._pool.fetch(column.replace, *zip(*changes, strict=True))
                    encrypted += len(replaced)
                    is_complete = is_complete and len(replaced) == len(changes)
        return RotationResult(column.kind, total, encrypted, tuple(unreadable))

    def _encrypt_text(self, place_of: Callable[[UUID], str], row: Record) -> str | None:
        """Return the replacement for a secret text; None if it needs none."""
        if self._cipher.is_current(row["stored"]):
            return None
        place = place_of(row["id"])
        return self._cipher.encrypt(self._cipher.decrypt(row["stored"], place), place)

    def _encrypt_json(self, place_of: Callable[[UUID], str], row: Record) -> str | None:
        """Return the replacement for a secret JSON value, as its text; None if it needs none."""
        stored = orjson.loads(row["stored"])
        if self._cipher.is_current(stored):
            return None
        place = place_of(row["id"])
        value = self._cipher.decrypt_json(stored, place)
        return to_json(self._cipher.encrypt_json(value, place)).decode()


def _changes(
    rows: Iterable[Record], encrypt: Callable[[Record], str | None], unreadable: list[str]
) -> Iterator[tuple[UUID, str, str]]:
    """Yield id, stored value and replacement of each row that needs one; note those that cannot be read."""
    for row in rows:
        try:
            replacement = encrypt(row)
        except SecretUnreadable as error:
            unreadable.append(str(error))
            continue
        if replacement is not None:
            yield row["id"], row["stored"], replacement
