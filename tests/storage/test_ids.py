"""Ids: they sort by time, can be derived, and tell when they were created."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from storage.ids import derive_id, latest_creation, new_id


def test_new_ids_sort_by_the_time_of_their_creation() -> None:
    ids = [new_id() for _ in range(1000)]
    assert ids == sorted(set(ids))


def test_derived_id_depends_on_owner_and_name_alone() -> None:
    owner = UUID(int=7)
    assert derive_id(owner, "quarantine") == derive_id(owner, "quarantine")
    others = {derive_id(owner, "budget"), derive_id(uuid4(), "quarantine")}
    assert len(others | {derive_id(owner, "quarantine")}) == 3


def test_new_id_tells_when_it_was_created() -> None:
    before = datetime.now(UTC)
    created_until = latest_creation(new_id())
    assert created_until is not None
    assert before <= created_until <= datetime.now(UTC) + timedelta(milliseconds=1)


def test_latest_creation_is_the_end_of_the_millisecond() -> None:
    made_id = UUID("00000000-03e8-7000-8000-000000000000")  # one second after the epoch
    assert latest_creation(made_id) == datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)


def test_id_without_a_usable_time_tells_nothing() -> None:
    assert latest_creation(uuid4()) is None
    assert latest_creation(UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")) is None
