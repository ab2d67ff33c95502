"""Replies: the contacts whose messages wait for an answer."""

from dataclasses import replace
from uuid import UUID

import pytest

from storage.ids import new_id
from storage.model import Notification, Priority, Source
from supervisors.policy.replies import waiting_contacts
from tests.storage.factories import HOUR, NOW, SECOND

ANN, BOB = UUID(int=1), UUID(int=2)


def text_from(contact_id: UUID | str, seconds: int = 0, source: Source = Source.SMS) -> Notification:
    moment = NOW + seconds * SECOND
    return Notification(
        id=new_id(),
        organization_id=new_id(),
        agent_id=new_id(),
        source=source,
        source_id=str(contact_id),
        title="New sms",
        body="",
        priority=Priority.HIGH,
        created_at=moment,
        scheduled_for=None,
        cleared=False,
        cleared_at=None,
        activated_at=moment,
    )


def test_contact_with_the_latest_message_comes_first() -> None:
    ann_1, bob, ann_2 = text_from(ANN), text_from(BOB, 1), text_from(ANN, 2, Source.EMAIL)

    waiting = waiting_contacts([ann_1, bob, ann_2])

    assert [contact.contact_id for contact in waiting] == [ANN, BOB]
    assert waiting[0].notifications == (ann_2, ann_1)


@pytest.mark.parametrize(
    ("source", "source_id"), [(Source.API, str(ANN)), (Source.SUBAGENT, str(ANN)), (Source.SMS, "+15550100")]
)
def test_notification_of_no_contact_waits_for_no_text(source: Source, source_id: str) -> None:
    assert waiting_contacts([text_from(source_id, source=source)]) == []


def test_answer_to_the_same_message_has_the_same_id() -> None:
    asked = text_from(ANN)
    [first], [again] = waiting_contacts([asked]), waiting_contacts([asked])
    [with_earlier] = waiting_contacts([text_from(ANN, -1), asked])

    assert first.message_id == again.message_id == with_earlier.message_id


def test_answer_to_another_activation_has_another_id() -> None:
    asked = text_from(ANN)
    uncleared = replace(asked, activated_at=NOW + HOUR)
    ids = {waiting_contacts([one])[0].message_id for one in (asked, uncleared, text_from(ANN))}

    assert len(ids) == 3
