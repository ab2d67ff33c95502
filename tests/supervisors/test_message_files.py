"""Images and PDFs of messages: which ones are attached to the first message of a run."""

from datetime import timedelta

import orjson
import pytest

from storage.channels.messages import CHUNK_BYTES, Attachment, Upload
from storage.ids import new_id
from storage.model import Agent, Priority, Source
from storage.postgres.pool import Pool
from supervisors import message_files as files
from supervisors.harness.trace_recorder import INPUT_MESSAGES
from supervisors.llm.port import ChatMessage
from tests.storage.channels import resources
from tests.storage.factories import new_notification
from tests.supervisors.harness.scripted_runs import SLEEP, metadata, running, spans, start_once
from tests.supervisors.world import World

PNG = b"\x89PNG\r\n\x1a\n" + bytes(CHUNK_BYTES)  # two chunks
PDF = b"%PDF-1.7\n"
PHOTO, SCAN = ("photo.png", "image/png", PNG), ("scan.pdf", "application/pdf", PDF)
File = tuple[str, str, bytes]


async def receive(world: World, agent: Agent, *sent: File, waits: bool = True) -> None:
    """Receive a message with files, which wakes nobody. The notification of one that waits is as old."""
    ann = resources.contact(agent, agent_id=None)
    await world.storage.contacts.insert(ann)
    uploads = [Upload(new_id(), *file) for file in sent]
    attachments = tuple(
        Attachment(one.name, one.content_type, f"/files/{one.name}", one.id, len(one.content))
        for one in uploads
    )
    now = world.clock.now()
    message = resources.message(agent, contact_id=ann.id, attachments=attachments, created_at=now)
    later = now if waits else now + timedelta(seconds=1)
    notification = new_notification(
        agent.id, source=Source.SMS, source_id=str(ann.id), created_at=later, priority=Priority.LOW
    )
    await world.storage.messages.receive(message, notification, {agent.organization_id}, uploads=uploads)


async def first_message(pool: Pool, *sent: File, waits: bool = True) -> ChatMessage:
    """Return what a run is told that follows a message with these files."""
    async with running(pool, [SLEEP]) as (world, agent, script):
        await receive(world, agent, *sent, waits=waits)
        await start_once(world, agent)
        return script.requests[0].messages[1]


def named(message: ChatMessage) -> list[tuple[str, bool]]:
    """Return the names of the files that the text names, and whether they are attached."""
    shown = [orjson.loads(line) for line in message.text.partition(files.FILES)[2].strip().splitlines()]
    return [(one["name"], "left_out" not in one) for one in shown]


async def test_images_and_pdfs_of_waiting_messages_are_attached(pool: Pool) -> None:
    told = await first_message(pool, PHOTO, ("note.txt", "text/plain", b"Hi"), SCAN)

    assert named(told) == [("photo.png", True), ("scan.pdf", True)]
    assert [(one.name, one.content_type, one.content) for one in told.files] == [PHOTO, SCAN]


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_BYTES", len(PNG)), ("MAX_TOKENS", files.TOKENS_PER_IMAGE)]
)
async def test_files_beyond_the_budget_are_named_as_left_out(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(files, limit, value)
    told = await first_message(pool, PHOTO, SCAN)

    assert named(told) == [("photo.png", True), ("scan.pdf", False)]
    assert [one.name for one in told.files] == ["photo.png"]


async def test_files_of_answered_messages_are_not_attached(pool: Pool) -> None:
    told = await first_message(pool, PHOTO, waits=False)

    assert (named(told), told.files) == ([], ())


async def test_files_of_the_latest_messages_are_attached(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisors.wake_context.MAX_MESSAGES", 1)
    async with running(pool, [SLEEP]) as (world, agent, script):
        await receive(world, agent, PHOTO)
        await world.advance(1)
        await receive(world, agent, SCAN)
        await start_once(world, agent)
        assert named(script.requests[0].messages[1]) == [("scan.pdf", True)]


async def test_trace_names_the_files_by_their_addresses(pool: Pool) -> None:
    async with running(pool, [SLEEP]) as (world, agent, _):
        await receive(world, agent, PHOTO)
        await start_once(world, agent)
        [span] = await spans(world, agent, "llm")
        [told] = (await metadata(world, span))[INPUT_MESSAGES]

    uri = {"type": "uri", "mime_type": "image/png", "name": "photo.png", "uri": "/files/photo.png"}
    assert told["parts"][1:] == [uri]
