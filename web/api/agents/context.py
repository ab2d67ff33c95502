"""What an agent is told: the context in which it wakes, and the transcript that it carries between runs."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TypedDict
from uuid import UUID

from aiohttp import web

from storage.agents.wakes import BYTES_PER_TOKEN, PastMessage, WaitingNotification
from storage.channels.memories import CORE
from storage.channels.messages import Channel, Direction, MessageStatus
from storage.history.runs import PastRun
from storage.history.transcripts import TranscriptFilters, TranscriptTurn, TurnKind
from storage.model import Outcome, Priority, Source
from supervisors.llm.port import ChatRole
from supervisors.message_files import MessageFile
from supervisors.wake_context import ShownConversation, WakeContext, first_message, system_message
from web.access.auth import Caller, RunAccess
from web.access.path_access import agent_of_path, load_in_turn
from web.app_keys import STORAGE, WAKES
from web.fields import Boolean
from web.json import Serializer
from web.paging import Listing, PageQuery, answer_list
from web.request.parsing import read_query
from web.routes import Routes


class ContextNotificationResponse(TypedDict):
    """A notification that waits for the agent."""

    id: UUID
    """The id to clear it by."""
    source: Source
    """Where it comes from."""
    source_id: str
    """What it refers to at its source, such as the id of the contact that wrote; "" if nothing."""
    priority: Priority
    """High ones must be cleared before the agent can sleep."""
    title: str
    """One line about it."""
    body: str
    """Its text, possibly cut."""
    is_cut: bool
    """Whether the text was cut to fit; the tool `list_notifications` shows it whole."""
    created_at: datetime
    """When it was created."""
    scheduled_for: datetime | None
    """When it fell due, if it was a reminder; else null."""


class ContextMessageResponse(TypedDict):
    """A message of a conversation."""

    id: UUID
    """The id of the message."""
    channel: Channel
    """The way it travelled."""
    direction: Direction
    """Its direction, seen from the agent."""
    subject: str
    """Its subject; "" if it has none."""
    body: str
    """Its text, possibly cut."""
    is_cut: bool
    """Whether the text was cut to fit."""
    attachments: int
    """How many files belong to it."""
    status: MessageStatus
    """Whether it was received or sent."""
    created_at: datetime
    """When it was received or written."""


class ContextConversationResponse(TypedDict):
    """The last messages between the agent and a contact."""

    contact: UUID
    """The id of the contact."""
    name: str
    """The contact's name."""
    phone: str
    """The contact's phone number; "" if there is none."""
    email: str
    """The contact's e-mail address; "" if there is none."""
    messages: Sequence[ContextMessageResponse]
    """The messages, the latest at the end."""
    has_earlier: bool
    """Whether there are earlier messages that were left out."""


class ContextMemoryResponse(TypedDict):
    """The core memory of the agent."""

    path: str
    """The path of the document."""
    content: str
    """Its text, possibly cut; "" if there is no room for it."""
    is_cut: bool
    """Whether the text was cut to fit."""


class ContextRunResponse(TypedDict):
    """A run that has ended, as the agent is told about it."""

    started_at: datetime
    """When it started."""
    ended_at: datetime
    """When it ended."""
    wake_reason: str
    """Why it started."""
    outcome: Outcome
    """How it ended."""
    entry: str
    """What the agent is told about the run."""


class ContextFileResponse(TypedDict):
    """An image or a PDF that came with a message, and is sent to the model beside `text`."""

    message: UUID
    """The message that it came with."""
    name: str
    """The name of the file; "" if it has none."""
    content_type: str
    """Its media type."""
    size: int
    """How many bytes it has."""
    url: str
    """The address to read it from."""
    is_left_out: bool
    """Whether it is only named, because the files before it have used the room."""


class ContextResponse(TypedDict):
    """What an agent is told when it wakes: the two messages, and what they were made from."""

    system: str
    """The system message: the built-in instruction, then the agent's system prompt with its placeholders
    filled in."""
    text: str
    """The first message of the user, which holds everything below."""
    tokens: int
    """About how many tokens `text` has, at three bytes of UTF-8 for each."""
    now: datetime
    """The time that the text names."""
    timezone: str
    """The agent's time zone, in which the text names all times."""
    run: UUID | None
    """The run that is under way; null: the text is what a run would be told now."""
    wake_reason: str
    """Why that run started; "" if none is under way."""
    asleep_since: datetime | None
    """When the run before ended; null if there was none."""
    interrupted_sleep_until: datetime | None
    """The end of the sleep that the run cut short; null if there was none."""
    max_sleep_until: datetime | None
    """The latest time that the run may let the agent sleep until; null: no limit, or no run."""
    notifications: Sequence[ContextNotificationResponse]
    """The notifications that wait: high-priority ones first, then the oldest first."""
    notifications_left_out: int
    """How many further notifications wait, as far as they were counted: there may be more than 50."""
    conversations: Sequence[ContextConversationResponse]
    """The conversations with the contacts concerned, the most concerned first."""
    memory: ContextMemoryResponse | None
    """The agent's core memory; null if it has none."""
    journal: Sequence[ContextRunResponse]
    """The last runs, the latest at the end; none if the template carries nothing over."""
    files: Sequence[ContextFileResponse]
    """The images and PDFs of messages that wait, in the order in which the model sees them."""


def _is_cut(one: WaitingNotification | PastMessage) -> bool:
    """Return whether `body` is only the beginning of the text."""
    return len(one.body.encode()) < one.body_bytes


serialize_notification = Serializer(ContextNotificationResponse, WaitingNotification, is_cut=_is_cut)
serialize_message = Serializer(
    ContextMessageResponse, PastMessage, is_cut=_is_cut, attachments="attachment_count"
)


_conversation = Serializer(
    ContextConversationResponse,
    ShownConversation,
    **{name: f"contact.{name}" for name in ("name", "phone", "email")},
    contact="contact.contact_id",
    messages=lambda talk: [serialize_message(line.item) for line in talk.lines],
)


def _memory(context: WakeContext) -> ContextMemoryResponse | None:
    memory = context.facts.core_memory
    if memory is None:
        return None
    content = context.core_memory.item if context.core_memory else ""
    is_cut = len(content.encode()) < memory.bytes
    return {"path": CORE, "content": content, "is_cut": is_cut}


def _run(run: PastRun, entry: str) -> ContextRunResponse:
    return {
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "wake_reason": run.wake_reason,
        "outcome": run.outcome,
        "entry": entry,
    }


def _file(file: MessageFile) -> ContextFileResponse:
    one = file.attachment
    return {
        "message": file.message_id,
        "name": one.name,
        "content_type": one.content_type,
        "size": one.size or 0,
        "url": one.url,
        "is_left_out": file.is_left_out,
    }


class TranscriptQuery(PageQuery):
    """The requested part of a transcript."""

    carried = Boolean(load_default=True)
    """Whether to list what the next run starts with, or else the entries that are carried no longer."""


class TranscriptCallResponse(TypedDict):
    """A call of a tool that the model asked for."""

    id: str
    """The id of the call, which the result names."""
    name: str
    """The name of the tool."""
    arguments: str
    """The arguments as JSON, as the model wrote them; long ones are left out."""


class TranscriptMessageResponse(TypedDict):
    """One message of a transcript. Long texts are cut, and say so at their end."""

    role: ChatRole
    """Who said it; in a summary always `user`, because it is told to the model."""
    text: str
    """What was said; the result of the tool as JSON; "" if there were only calls."""
    tool_calls: Sequence[TranscriptCallResponse]
    """The calls that the model asked for."""
    tool_call_id: str
    """The call that a result belongs to; "" for other messages."""


class TranscriptTurnResponse(TypedDict):
    """An entry of a transcript: a turn of a run, or the summary of all entries before it."""

    id: UUID
    """Chosen by the service."""
    agent: UUID
    """The agent whose transcript it is."""
    run: UUID
    """The run in which it was said or summarized."""
    kind: TurnKind
    """What the entry is."""
    messages: Sequence[TranscriptMessageResponse]
    """What was said, in its order."""
    tokens: int
    """About how many tokens the messages have."""
    carried: bool
    """Whether the next run starts with it. If not, a summary or a thousand newer turns took its place."""
    created_at: datetime
    """When the turn or the summary was stored."""


serialize_turn = Serializer(TranscriptTurnResponse, TranscriptTurn)

routes = Routes()


@routes.get("/api/cloud/agents/{id}/context/", run_access=RunAccess.RUNNING)
async def get_context(request: web.Request, caller: Caller) -> ContextResponse:
    """Read what the agent is told when it wakes: its notifications, conversations, core memory and last runs.

    During a run it is what the run would be told now; reading it changes nothing. `system` and `text` are the
    two messages that the built-in loop sends to the model.
    """
    context = await load_in_turn(request, request.app[WAKES].get)
    facts, run = context.facts, context.facts.run
    caller.require_agent(facts.agent.id, facts.agent.organization_id)
    text = first_message(context)
    return {
        "system": system_message(facts),
        "text": text,
        "tokens": -(-len(text.encode()) // BYTES_PER_TOKEN),
        "now": context.now,
        "timezone": facts.agent.timezone,
        "run": run.id if run else None,
        "wake_reason": run.wake_reason if run else "",
        "asleep_since": facts.last_ended_at,
        "interrupted_sleep_until": run.interrupted_sleep_until if run else None,
        "max_sleep_until": run.max_sleep_until if run else None,
        "notifications": [serialize_notification(line.item) for line in context.notifications],
        "notifications_left_out": context.notifications_left_out,
        "conversations": [_conversation(talk) for talk in context.conversations],
        "memory": _memory(context),
        "journal": [_run(line.item, line.text.removeprefix("- ")) for line in context.journal],
        "files": [_file(file) for file in context.files],
    }


@routes.get(
    "/api/cloud/agents/{id}/transcript/",
    answer=list[TranscriptTurnResponse],
    query=TranscriptQuery,
    run_access=RunAccess.RUNNING,
)
async def list_transcript(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List what an agent carries from run to run, newest first.

    Only agents with a template whose `carry_over` is `transcript` have one. Each turn of a run is stored
    before the next one begins.
    """
    agent_id = await agent_of_path(request, caller)
    transcripts, query = request.app[STORAGE].transcripts, read_query(request)
    fetch = partial(transcripts.list_page, TranscriptFilters(agent_id, query["carried"]))
    listing = Listing(fetch, serialize_turn, transcripts.get, lambda turn: turn.agent_id == agent_id)
    return await answer_list(request, query, listing)


@routes.delete("/api/cloud/agents/{id}/transcript/")
async def delete_transcript(request: web.Request, caller: Caller) -> None:
    """Delete the whole transcript of an agent, so that its next run starts without.

    A run that is active goes on with what it was told, and stores its further turns.
    """
    agent_id = await agent_of_path(request, caller)
    await request.app[STORAGE].transcripts.delete_of_agent(agent_id)
