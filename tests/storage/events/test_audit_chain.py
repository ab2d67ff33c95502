import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from storage.events.audit_chain import (
    NO_DIGEST,
    AuditEntry,
    BrokenChain,
    digest_of,
    export_lines,
    head_line,
    verify,
)
from storage.ids import new_id
from storage.postgres.statement import fields_of

NOW = datetime(2026, 11, 29, 9, 30, tzinfo=UTC)
ORGANIZATION = UUID("0198c0de-0000-7000-8000-000000000000")
NAMES = ("Ann", "Bö", "Cy", "Di")


def chain() -> Iterator[AuditEntry]:
    previous = NO_DIGEST
    for number, name in enumerate(NAMES, start=1):
        entry = AuditEntry(
            *(new_id(), ORGANIZATION, number, NOW, "key:1", "192.0.2.1", "template", "created", None, None),
            {"name": name, "n": 1.5},
            previous,
            b"",
        )
        previous = digest_of(fields_of(entry, without={"digest"}))
        yield replace(entry, digest=previous)


@pytest.fixture
def entries() -> list[AuditEntry]:
    return list(chain())


@pytest.fixture
def lines(entries: list[AuditEntry]) -> list[str]:
    head = head_line(len(entries), entries[-1].digest)
    return (export_lines(entries) + head).decode().splitlines()


def broken(lines: list[str], head: str = "") -> str:
    with pytest.raises(BrokenChain) as caught:
        verify(lines, head)
    return str(caught.value)


def test_complete_export_is_verified(entries: list[AuditEntry], lines: list[str]) -> None:
    assert verify(lines) == (1, 4, entries[-1].digest.hex())


def test_export_after_retention_begins_later(lines: list[str]) -> None:
    assert verify(lines[2:])[:2] == (3, 4)


def test_empty_log_is_verified() -> None:
    assert verify([head_line(0, NO_DIGEST).decode()]) == (0, 0, NO_DIGEST.hex())


def test_each_changed_field_is_found(lines: list[str]) -> None:
    for name in json.loads(lines[1]):
        changed = json.loads(lines[1])
        changed[name] = 7 if name == "number" else "7"
        assert broken([lines[0], json.dumps(changed), *lines[2:]]), name


def test_missing_entry_is_found(lines: list[str]) -> None:
    assert broken([*lines[:1], *lines[2:]]) == "an entry after number 1 is missing, changed or inserted"


def test_repeated_and_exchanged_entries_are_found(lines: list[str]) -> None:
    assert broken([*lines[:2], *lines[1:]])
    assert broken([lines[1], lines[0], *lines[2:]])


def test_truncated_export_is_found(lines: list[str]) -> None:
    assert broken(lines[:-1]) == "the end is missing: after number 4 there is no line with the head"
    assert broken([*lines[:3], lines[-1]]) == "entries after number 3 are missing"
    assert broken(lines[-1:]) == "entries after number 0 are missing"


def test_text_that_is_no_entry_is_found(lines: list[str]) -> None:
    for text in ("", "[]", "{}", "7", "{", "[" * 100_000):
        assert broken([lines[0], text, *lines[1:]]) == "the line after number 1 is no entry"


def test_lines_after_the_head_are_found(lines: list[str]) -> None:
    assert broken([*lines, lines[0]]) == "something follows the head, which is number 4"
    assert broken([*lines, *lines]) == "something follows the head, which is number 4"


def test_rewritten_log_lacks_the_head_noted_before(entries: list[AuditEntry], lines: list[str]) -> None:
    noted = entries[1].digest.hex()
    assert verify(lines, noted)[:2] == (1, 4)
    rewritten = list(chain())  # with other ids
    text = (export_lines(rewritten) + head_line(4, rewritten[-1].digest)).decode().splitlines()
    assert verify(text)[:2] == (1, 4)
    assert broken(text, noted) == f"no entry has the digest {noted}"
