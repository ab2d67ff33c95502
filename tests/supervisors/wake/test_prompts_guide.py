"""docs/prompts.md quotes the messages of a run word for word."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from storage.agents.wakes import ContactMessages, RunUnderWay
from storage.model import Priority, Reply, Source
from supervisors.harness.inbox import open_message
from supervisors.harness.transcript import LEFT_OUT, SUMMARIZE, SUMMARY
from supervisors.wake.context import WEIGHTS, select
from supervisors.wake.instruction import INSTRUCTION, PLACEHOLDERS, REPLIES
from supervisors.wake.message import first_message
from tests.paths import DOCS
from tests.storage.factories import agent, notice
from tests.supervisors.wake.facts import memory, past_run, said, waiting, wake_facts

GUIDE = (DOCS / "prompts.md").read_text()
QUOTES = re.findall(r"^```text\n(.*?)\n```$", GUIDE, re.MULTILINE | re.DOTALL)

MORNING = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
EVENING = datetime(2026, 11, 25, 17, 30, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def uuid(ending: str) -> UUID:
    return UUID(f"01a2042c-a57a-76c4-92fb-{ending:0>12}")


def test_guide_quotes_the_instruction() -> None:
    assert QUOTES[:3] == [INSTRUCTION, REPLIES[Reply.TOOL], REPLIES[Reply.TEXT]]


def test_guide_quotes_the_messages_about_a_transcript() -> None:
    assert QUOTES[4:7] == [SUMMARIZE, SUMMARY, LEFT_OUT]


def test_guide_quotes_a_first_message() -> None:
    ann, question = uuid("4796864fccac"), 'Has it "come" yet?'
    messages = (
        said(question, created_at=MORNING - MINUTE),
        said("I will ask the post office.", by_agent=True, created_at=EVENING - MINUTE),
        *(said("x" * 500, created_at=EVENING - HOUR) for _ in range(30)),
    )
    journal = {
        "woken_by": ["New sms from Ann"],
        "cleared": ["New sms from Ann"],
        "cleared_count": 1,
        "sent": [{"name": "Ann", "channel": "sms", "status": "sent"}],
        "sent_count": 1,
        "tools": [
            {"name": name, "calls": 1, "errors": 0, "last_error": ""}
            for name in ("send_message", "clear_notification", "sleep")
        ],
    }
    facts = wake_facts(
        agent=agent(uuid("0"), id=uuid("4794f44c7d4c"), timezone="Europe/Berlin"),
        run=RunUnderWay(uuid("1"), "notification:sms", MORNING, MORNING + 23 * HOUR, MORNING + 24 * HOUR),
        last_ended_at=EVENING,
        notifications=(
            waiting(
                "New sms from Ann",
                question,
                id=uuid("47973c64f140"),
                source=Source.SMS,
                source_id=str(ann),
                created_at=MORNING - MINUTE,
            ),
            waiting(
                "Weekly report",
                id=uuid("4798c1816721"),
                priority=Priority.LOW,
                created_at=MORNING - 2 * HOUR,
            ),
        ),
        conversations=(ContactMessages(ann, "Ann", "+493012345", "", messages),),
        core_memory=memory("# Ann\nWaits for a parcel from Graz.\n"),
        runs=(
            past_run(
                wake_reason="notification:sms",
                started_at=EVENING - 2 * MINUTE,
                ended_at=EVENING,
                journal=journal,
            ),
        ),
    )
    text = first_message(select(facts, MORNING, 900))

    assert re.sub(r'^\{"at":"2026-11-25 17:30".*\n', "", text, flags=re.MULTILINE) == QUOTES[3]


def test_guide_quotes_the_message_about_what_is_open() -> None:
    plants = replace(notice(agent(uuid("2"))), id=uuid("1"), source=Source.API, title="Water the plants")

    assert open_message([plants]) == QUOTES[7]


def test_guide_lists_the_placeholders_and_weights() -> None:
    assert tuple(re.findall(r"^\| `\{\{([a-z_.]+)\}\}` \|", GUIDE, re.MULTILINE)) == PLACEHOLDERS
    assert list(WEIGHTS.values()) == [70, 12, 12, 6]
    assert "(core memory 70, notifications 12, conversations 12, runs 6)" in GUIDE
