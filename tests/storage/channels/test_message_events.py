"""The events of messages: received, sent and failed, each once."""

from storage.channels.messages import Direction, Messages, MessageStatus
from storage.events.model import by_run
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.pool import Pool
from tests.storage.channels.resources import message
from tests.storage.events.recorded import list_events, logged
from tests.storage.factories import HOUR, NOW

KEY = f"key:{new_id()}"


async def test_queued_message_is_recorded_when_it_is_sent(
    pool: Pool, messages: Messages, scout: Agent
) -> None:
    run_id = new_id()
    new = message(scout, direction=Direction.OUTBOUND, status=MessageStatus.QUEUED, contact_id=None)
    await messages.insert(new, actor=by_run(run_id))
    assert await list_events(pool, "message") == []
    await messages.update_queued(new.id, MessageStatus.SENT, NOW + HOUR, actor=by_run(run_id))
    await messages.update_queued(new.id, MessageStatus.FAILED, NOW + HOUR, actor=by_run(run_id))

    [event] = await list_events(pool, "message")
    assert (event["type"], event["at"], event["run_id"]) == ("message.sent", NOW + HOUR, run_id)
    assert event["data"] == {"channel": new.channel}


async def test_message_that_failed_at_once_is_recorded(pool: Pool, messages: Messages, scout: Agent) -> None:
    failed = message(scout, direction=Direction.OUTBOUND, status=MessageStatus.FAILED, contact_id=None)
    await messages.insert(failed, actor=KEY)

    assert await logged(pool, "message") == [("message.failed", KEY, {"channel": failed.channel})]
