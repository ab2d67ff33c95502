"""The cipher for stored secrets, from the configured keys and the record of those in use."""

from collections.abc import Sequence
from datetime import datetime

from storage.encryption import SecretCipher, parse_key
from storage.identity.encryption_keys import EncryptionKeys
from storage.postgres.connections import connect
from storage.postgres.pool import Connection, Pool

NEW_KEY = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
IN_CLEAR = (
    "secrets are stored in clear; to encrypt them, set accounts.encryption_keys to a key made by "
    f"`{NEW_KEY}`, then run `hostsvc rotate-keys`"
)
NOT_ROTATED = (
    "secrets from before the first of accounts.encryption_keys are not encrypted with it yet; "
    "run `hostsvc rotate-keys`"
)


async def open_cipher(keys: Sequence[str], database: "Pool | Connection") -> SecretCipher:
    """Return the cipher for this database.

    Raise DatabaseRefused if something may be stored under a key that is not configured.
    """
    cipher = SecretCipher([parse_key(key) for key in keys])
    await EncryptionKeys(database).require_known(cipher.key_ids)
    return cipher


async def require_keys(keys: Sequence[str], url: str) -> None:
    """Raise DatabaseRefused like `open_cipher`. A standby asks before it waits for the lead."""
    async with connect(url) as connection:
        await open_cipher(keys, connection)


async def open_cipher_of_service(keys: Sequence[str], pool: Pool, now: datetime) -> SecretCipher:
    """Return the cipher for this database, and record that the service encrypts with its first key."""
    cipher = await open_cipher(keys, pool)
    if cipher.key_ids:
        await EncryptionKeys(pool).insert(cipher.key_ids[0], now)
    return cipher


async def encryption_notice(cipher: SecretCipher, pool: Pool) -> str:
    """Return a line for the operator if secrets are, or may be, stored in clear or under another key."""
    if not cipher.key_ids:
        return IN_CLEAR
    return "" if await EncryptionKeys(pool).is_rotated(cipher.key_ids[0]) else NOT_ROTATED
