"""Encryption at rest: secrets in columns are encrypted under the keys of `accounts.encryption_keys`.

A stored secret is a text of one of three forms:

    hostsvc:1:<key id>:<data>   encrypted with AES-256-GCM; the data is nonce and ciphertext, in base64
    hostsvc:0:<text>            in clear, for a text that begins with "hostsvc:" itself
    <text>                      in clear; written without a key, or by another program

The ciphertext is bound to its place, the column and the id of its row: copied elsewhere it does not decrypt.
"""

import base64
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from storage.errors import SecretUnreadable
from storage.postgres.json_values import EncodedJson, decoded, from_json, to_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_log = structlog.get_logger(__name__)

KEY_BYTES = 32
MAX_REPORTED = 1000  # places whose unreadable secret has been logged
NONCE_BYTES = 12

MARK = "hostsvc:"
CLEAR = f"{MARK}0:"
ENCRYPTED = f"{MARK}1:"

# The names of places are part of every ciphertext: with another name no stored secret decrypts.
TOKEN_SECRET = "instance.token_secret"  # noqa: S105 -- the name of a column
OPERATOR_TOKEN = "instance.operator_token"  # noqa: S105 -- the name of a column


def tool_call_secret_of(template_id: UUID) -> str:
    """Return the place of a template's secret."""
    return f"template.tool_call_secret of {template_id}"


def config_of(adapter_config_id: UUID) -> str:
    """Return the place of the config in an adapter config."""
    return f"adapter_config.config of {adapter_config_id}"


def value_of_secret(secret_id: UUID) -> str:
    """Return the place of the value of a secret for code and tools."""
    return f"secret.value of {secret_id}"


def value_of_webhook_secret(secret_id: UUID) -> str:
    """Return the place of the value of a secret that signs event webhooks."""
    return f"webhook_secret.value of {secret_id}"


def secret_of_hook(hook_id: UUID) -> str:
    """Return the place of the secrets of an inbound hook, the current one and the one before."""
    return f"hook.secret of {hook_id}"


def parse_key(text: str) -> bytes:
    """Return the key that the text encodes in base64, URL-safe or plain, padded or not.

    Raise ValueError, whose message does not contain the text.
    """
    try:
        standard = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
        key = base64.b64decode(standard, validate=True)
    except ValueError:
        raise ValueError("it is not base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"it has {len(key)} bytes")
    return key


def key_id(key: bytes) -> str:
    """Return the name of a key, which tells nothing about the key."""
    return hashlib.sha256(b"hostsvc encryption key " + key).hexdigest()[:8]


def _aes_gcm(key: bytes) -> "AESGCM":
    # Imported here because it is heavy (7 MB), and an installation without keys never needs it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


class SecretCipher:
    """Encrypts with the first of its keys, and decrypts with any of them; without keys it stores in clear."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = {key_id(key): _aes_gcm(key) for key in keys}
        self.key_ids = tuple(self._keys)
        self._reported: set[str] = set()

    def encrypt(self, text: str, place: str) -> str:
        """Return the text as it is stored at this place; a blank one, which is no secret, stays blank."""
        if not text:
            return text
        if not self._keys:
            return CLEAR + text if text.startswith(MARK) else text
        first = self.key_ids[0]
        nonce = os.urandom(NONCE_BYTES)
        data = nonce + self._keys[first].encrypt(nonce, text.encode(), place.encode())
        return f"{ENCRYPTED}{first}:{base64.b64encode(data).decode()}"

    def decrypt(self, stored: str, place: str) -> str:
        """Return the text that is stored at this place. Raise SecretUnreadable."""
        if not stored.startswith(ENCRYPTED):
            return stored.removeprefix(CLEAR)
        name, _, data = stored.removeprefix(ENCRYPTED).partition(":")
        key = self._keys.get(name)
        if key is None:
            raise SecretUnreadable(place, f"its key {name[:8]} is not in accounts.encryption_keys")
        from cryptography.exceptions import InvalidTag  # loaded with the key

        try:
            message = base64.b64decode(data, validate=True)
            return key.decrypt(message[:NONCE_BYTES], message[NONCE_BYTES:], place.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretUnreadable(place, "it was changed, or written at another place") from error

    def encrypt_json(self, value: Any, place: str) -> Any:
        """Return the JSON value to store for a JSON value: a string once it is encrypted."""
        if self._keys:
            return self.encrypt(to_json(value).decode(), place)
        return self.encrypt(value, place) if isinstance(value, str) else value

    def decrypt_json(self, stored: Any, place: str) -> Any:
        """Return the JSON value that is stored at this place. Raise SecretUnreadable."""
        if isinstance(stored, EncodedJson) and stored.text.startswith(b'"'):
            stored = decoded(stored)
        if not isinstance(stored, str):
            return stored
        text = self.decrypt(stored, place)
        return from_json(text.encode()) if stored.startswith(ENCRYPTED) else text

    def decrypt_or_none(self, stored: str, place: str) -> str | None:
        """Return the text that is stored at this place; None, with a line in the log, if it is unreadable."""
        try:
            return self.decrypt(stored, place)
        except SecretUnreadable as error:
            self._report(error)
            return None

    def decrypt_json_or_none(self, stored: Any, place: str) -> Any:
        """Return the JSON value that is stored at this place; None, with a log line, if it is unreadable."""
        try:
            return self.decrypt_json(stored, place)
        except SecretUnreadable as error:
            self._report(error)
            return None

    def _report(self, error: SecretUnreadable) -> None:
        """Log an unreadable secret once; beyond a maximum of places, log them again."""
        if error.place in self._reported:
            return
        if len(self._reported) >= MAX_REPORTED:
            self._reported.clear()
        self._reported.add(error.place)
        _log.error("stored secret unreadable; set it again", place=error.place, reason=str(error))

    def is_current(self, stored: Any) -> bool:
        """Return whether this is stored as `encrypt` would store it now: with the first key, or blank."""
        if not self._keys or stored == "":
            return True
        return isinstance(stored, str) and stored.startswith(f"{ENCRYPTED}{self.key_ids[0]}:")


NO_ENCRYPTION = SecretCipher()
