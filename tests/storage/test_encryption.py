"""The secret cipher: what it stores, and what it refuses to read."""

import base64
from typing import Any

import pytest
from structlog.testing import capture_logs

from storage.encryption import KEY_BYTES, NO_ENCRYPTION, SecretCipher, key_id, parse_key
from storage.errors import SecretUnreadable

OLD_KEY, NEW_KEY = b"o" * KEY_BYTES, b"n" * KEY_BYTES
OLD, NEW = SecretCipher([OLD_KEY]), SecretCipher([NEW_KEY, OLD_KEY])
HERE, THERE = "template.tool_call_secret of 1", "template.tool_call_secret of 2"
SECRET = "whsec_ä"


def test_first_key_encrypts_and_all_keys_decrypt() -> None:
    by_old, by_new = OLD.encrypt(SECRET, HERE), NEW.encrypt(SECRET, HERE)
    assert by_new.startswith(f"hostsvc:1:{key_id(NEW_KEY)}:")
    assert SECRET not in by_new
    assert [NEW.decrypt(stored, HERE) for stored in (by_old, by_new)] == [SECRET, SECRET]
    assert (NEW.is_current(by_old), NEW.is_current(by_new), OLD.is_current(by_old)) == (False, True, True)


def test_equal_secrets_are_stored_differently() -> None:
    assert NEW.encrypt(SECRET, HERE) != NEW.encrypt(SECRET, HERE)


@pytest.mark.parametrize("cipher", [NO_ENCRYPTION, NEW])
@pytest.mark.parametrize(
    "text", ["", "plain", "hostsvc:", "hostsvc:0:x", "hostsvc:1:0123abcd:x", "hostsvc:2:"]
)
def test_every_text_is_read_as_it_was_written(cipher: SecretCipher, text: str) -> None:
    stored = cipher.encrypt(text, HERE)
    assert cipher.decrypt(stored, HERE) == text
    assert not stored.startswith("hostsvc:1:") or cipher is NEW


@pytest.mark.parametrize("cipher", [NO_ENCRYPTION, NEW])
@pytest.mark.parametrize("value", [None, 0, "", "text", "hostsvc:1:x", [1, {"a": None}], {"key": "ß"}])
def test_every_json_value_is_read_as_it_was_written(cipher: SecretCipher, value: Any) -> None:
    assert cipher.decrypt_json(cipher.encrypt_json(value, HERE), HERE) == value


def test_secret_stored_in_clear_is_read_with_keys() -> None:
    assert NEW.decrypt("whsec_old", HERE) == "whsec_old"
    assert NEW.decrypt_json({"password": "x"}, HERE) == {"password": "x"}
    assert not NEW.is_current("whsec_old")
    assert not NEW.is_current({"password": "x"})
    assert NEW.is_current("")


def test_ciphertext_copied_to_another_place_is_refused() -> None:
    with pytest.raises(SecretUnreadable, match=f"{THERE} cannot be decrypted: it was changed, or written at"):
        NEW.decrypt(NEW.encrypt(SECRET, HERE), THERE)


def test_secret_of_missing_key_is_refused_by_name() -> None:
    stored = OLD.encrypt(SECRET, HERE)
    for cipher in (NO_ENCRYPTION, SecretCipher([NEW_KEY])):
        with pytest.raises(SecretUnreadable, match=f"its key {key_id(OLD_KEY)} is not in"):
            cipher.decrypt(stored, HERE)


@pytest.mark.parametrize("change", ["", "?", "AAAA", "A" * 100, "ä"])
def test_damaged_ciphertext_is_refused(change: str) -> None:
    with pytest.raises(SecretUnreadable):
        NEW.decrypt(f"hostsvc:1:{key_id(NEW_KEY)}:{change}", HERE)


def test_key_may_be_in_any_base64() -> None:
    key = bytes(range(0xF0, 0xF0 + 16)) * 2
    for text in (base64.urlsafe_b64encode(key).decode(), base64.b64encode(key).decode()):
        assert parse_key(text) == parse_key(text.rstrip("=")) == key


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hunter2", "it has 5 bytes"),
        ("", "it has 0 bytes"),
        ("A" * 44, "it has 33 bytes"),
        ("+?" * 22, "it is not base64"),
        (" " + "A" * 43, "it is not base64"),
        ("ä" * 43, "it is not base64"),
    ],
)
def test_invalid_key_is_refused_without_repeating_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse_key(text)


def test_repr_of_cipher_hides_keys() -> None:
    assert "nnn" not in repr(NEW)


def test_unreadable_secret_is_logged_once_and_read_as_none() -> None:
    cipher, stored = SecretCipher([NEW_KEY]), OLD.encrypt("s3cret", HERE)
    with capture_logs() as lines:
        assert [cipher.decrypt_or_none(stored, HERE) for _ in range(3)] == [None] * 3
        assert cipher.decrypt_json_or_none(stored, THERE) is None
    assert [(line["log_level"], line["place"]) for line in lines] == [("error", HERE), ("error", THERE)]
    assert cipher.decrypt_or_none(cipher.encrypt("s3cret", HERE), HERE) == "s3cret"
