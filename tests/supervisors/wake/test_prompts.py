"""The two messages that open a run, and the guide that quotes them."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from storage.agents.wakes import MAX_NOTIFICATIONS, ContactMessages, RunUnderWay
from storage.channels.messages import MessageStatus
from storage.ids import new_id
from storage.model import Priority, Reply, Source
from supervisors.harness.inbox import open_message
from supervisors.harness.transcript import LEFT_OUT, SUMMARIZE, SUMMARY
from supervisors.wake_context import (
    ANSWER_FORMAT,
    INSTRUCTION,
    MAX_PLACEHOLDERS,
    PLACEHOLDERS,
    REPLIES,
    WEIGHTS,
    first_message,
    select,
    system_message,
    system_prompt,
)
from tests.paths import DOCS
from tests.storage.factories import HOUR, MINUTE, NOW, agent, notice, template
from tests.supervisors.wake.facts import memory, past_run, said, talk, waiting, wake_facts


def test_prompt_follows_the_built_in_instruction() -> None:
    alone = system_message(wake_facts())
    prompted = system_message(wake_facts(agent=agent(new_id(), system_prompt="Be kind.")))

    assert alone.startswith("You are an agent that a service wakes")
    assert prompted == f"{alone}\n\nBe kind."


@pytest.mark.parametrize(("own", "expected"), [("", "Be brief."), ("Be kind.", "Be kind.")])
def test_prompt_of_agent_overrides_template(own: str, expected: str) -> None:
    shared = template(new_id(), system_prompt="Be brief.")

    assert system_prompt(wake_facts(agent=agent(new_id(), system_prompt=own), template=shared)) == expected


def test_instruction_says_where_a_final_text_goes() -> None:
    by_tool = system_message(wake_facts(template=template(new_id(), reply=Reply.TOOL)))
    by_text = system_message(wake_facts(template=template(new_id(), reply=Reply.TEXT)))

    assert "The text of an answer reaches nobody" in by_tool
    assert "is sent to the person whose message waits" in by_text


def test_placeholders_are_filled_in() -> None:
    scout = agent(
        new_id(), system_prompt=" ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS), email_alias="scout"
    )
    shared = template(new_id(), name="Concierge")
    facts = wake_facts(agent=scout, template=shared)

    expected = f"{scout.id} Scout builtin/inbox UTC scout Acme "
    assert system_prompt(facts) == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("I am {{ agent.name }}.", "I am {{agent.id}}."),  # a value is not searched for placeholders
        ("{{agent.name}}" * (MAX_PLACEHOLDERS + 1), "{{agent.id}}" * MAX_PLACEHOLDERS + "{{agent.name}}"),
        *((same, same) for same in ("{{agent.secret}}", "{{name}}", "{agent.name}", "{{agent.name", "{{}}")),
    ],
)
def test_only_placeholders_of_the_prompt_are_filled_in(prompt: str, expected: str) -> None:
    scout = agent(new_id(), system_prompt=prompt, name="{{agent.id}}")

    assert system_prompt(wake_facts(agent=scout)) == expected


def test_message_of_first_run_says_that_nothing_is_known() -> None:
    facts = wake_facts()

    assert first_message(select(facts, NOW, 4000)) == (
        f'You are "Scout", an agent of "Acme". Your id is {facts.agent.id}.\n'
        "It is Thursday, 2126-11-21 09:00:00 in UTC (UTC, UTC+0000).\n"
        "You were woken by a run request. This is your first run.\n"
        "After this run you may sleep without a limit.\n"
        "\n"
        "No notification waits for you.\n"
        "\n"
        "Your core memory, /memories/core.md, does not exist yet."
    )


def test_message_tells_all_parts_in_local_time() -> None:
    ann = talk(said("Where is it?"), said("Hello Ann.", by_agent=True, created_at=NOW - HOUR))
    text = waiting(
        "New sms from Ann", "Where is it?", source=Source.SMS, source_id=str(ann.contact_id), id=new_id()
    )
    low = waiting("Weekly report", priority=Priority.LOW, scheduled_for=NOW - MINUTE)
    facts = wake_facts(
        agent=agent(new_id(), timezone="Europe/Berlin"),
        run=RunUnderWay(new_id(), "notification:sms", NOW, NOW + HOUR, NOW + 24 * HOUR),
        last_ended_at=NOW - 2 * HOUR,
        notifications=(text, low),
        conversations=(ann,),
        core_memory=memory("# Ann\nlikes tea\n"),
        runs=(past_run(), past_run(error="no answer")),
    )

    assert first_message(select(facts, NOW, 4000)) == (
        f'You are "Scout", an agent of "Acme". Your id is {facts.agent.id}.\n'
        "It is Thursday, 2126-11-21 10:00:00 in Europe/Berlin (CET, UTC+0100).\n"
        "You were woken by a high-priority notification from sms. "
        "You slept since Thursday, 2126-11-21 08:00.\n"
        "You wanted to sleep until Thursday, 2126-11-21 11:00.\n"
        "After this run you may sleep until Friday, 2126-11-22 10:00 at the latest.\n"
        "\n"
        "Notifications that wait for you (2, of high priority 1):\n"
        f'{{"id":"{text.id}","priority":"high","source":"sms","source_id":"{ann.contact_id}",'
        '"created_at":"2126-11-21 09:59","title":"New sms from Ann","body":"Where is it?"}\n'
        f'{{"id":"{low.id}","priority":"low","source":"api","created_at":"2126-11-21 09:59",'
        '"scheduled_for":"2126-11-21 09:59","title":"Weekly report"}\n'
        "\n"
        "Your last messages with this contact, the latest at the end:\n"
        f'{{"contact_id":"{ann.contact_id}","name":"Ann","phone":"+49 30 1"}}\n'
        '{"at":"2126-11-21 09:00","from":"you","channel":"sms","text":"Hello Ann."}\n'
        '{"at":"2126-11-21 09:59","from":"contact","channel":"sms","text":"Where is it?"}\n'
        "\n"
        "Your core memory, /memories/core.md:\n"
        '{"content":"# Ann\\nlikes tea\\n"}\n'
        "\n"
        "Your last runs, the latest at the end (list_runs shows earlier ones):\n"
        "- 2126-11-21 09:00 to 09:01 CET, woken by reminder. Cleared nothing. It ended with sleep: "
        '"no answer".\n'
        "- 2126-11-21 09:00 to 09:01 CET, woken by reminder. Cleared nothing. It ended with sleep."
    )


def test_message_without_a_run_says_so() -> None:
    text = first_message(select(wake_facts(run=None), NOW, 4000))

    assert "No run is under way: this is what a run would be told now." in text
    assert "You were woken" not in text


def test_message_names_the_tools_that_show_what_is_left_out() -> None:
    many = tuple(waiting(f"Number {number}") for number in range(MAX_NOTIFICATIONS + 1))
    busy = talk(*(said("x" * 300) for _ in range(31)))
    text = first_message(
        select(
            wake_facts(notifications=many, conversations=(busy,), core_memory=memory("y" * 5000)), NOW, 1500
        )
    )

    assert "Notifications that wait for you (at least 51, of high priority 51):" in text
    assert "more: list_notifications shows them." in text
    assert "the latest at the end; list_messages shows earlier ones:" in text
    assert "of 5000 bytes; the tool memory shows it whole" in text


def test_message_that_was_not_sent_shows_its_status() -> None:
    failed = said("Hello?", by_agent=True, status=MessageStatus.FAILED)
    text = first_message(select(wake_facts(conversations=(talk(failed),)), NOW, 4000))

    assert '"from":"you","channel":"sms","status":"failed","text":"Hello?"' in text


def test_attachments_come_with_the_id_of_their_message() -> None:
    picture = said("Look", attachment_count=2, subject="My cat")
    text = first_message(select(wake_facts(conversations=(talk(picture),)), NOW, 4000))

    assert f'"id":"{picture.id}","attachments":2,"subject":"My cat","text":"Look"' in text


GUIDE = (DOCS / "prompts.md").read_text()
QUOTES = re.findall(r"^```text\n(.*?)\n```$", GUIDE, re.MULTILINE | re.DOTALL)

MORNING = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
EVENING = datetime(2026, 11, 25, 17, 30, tzinfo=UTC)


def uuid(ending: str) -> UUID:
    return UUID(f"01a2042c-a57a-76c4-92fb-{ending:0>12}")


def test_guide_quotes_the_instruction() -> None:
    assert QUOTES[:4] == [INSTRUCTION, REPLIES[Reply.TOOL], REPLIES[Reply.TEXT], ANSWER_FORMAT]


def test_guide_quotes_the_messages_about_a_transcript() -> None:
    assert QUOTES[5:8] == [SUMMARIZE, SUMMARY, LEFT_OUT]


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

    assert re.sub(r'^\{"at":"2026-11-25 17:30".*\n', "", text, flags=re.MULTILINE) == QUOTES[4]


def test_guide_quotes_the_message_about_what_is_open() -> None:
    plants = replace(notice(agent(uuid("2"))), id=uuid("1"), source=Source.API, title="Water the plants")

    assert open_message([plants]) == QUOTES[8]


def test_guide_lists_the_placeholders_and_weights() -> None:
    assert tuple(re.findall(r"^\| `\{\{([a-z_.]+)\}\}` \|", GUIDE, re.MULTILINE)) == tuple(PLACEHOLDERS)
    assert list(WEIGHTS.values()) == [70, 12, 12, 6]
    assert "(core memory 70, notifications 12, conversations 12, runs 6)" in GUIDE
