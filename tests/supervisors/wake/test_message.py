"""The first message of a run, word for word."""

from storage.agents.wakes import MAX_NOTIFICATIONS, RunUnderWay
from storage.channels.messages import MessageStatus
from storage.ids import new_id
from storage.model import Priority, Source
from supervisors.wake.context import select
from supervisors.wake.message import first_message
from tests.storage.factories import HOUR, MINUTE, NOW, agent
from tests.supervisors.wake.facts import memory, past_run, said, talk, waiting, wake_facts


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
