"""Transcripts: queries and responses."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.history.transcripts import TranscriptTurn, TurnKind
from supervisors.llm.port import ChatRole
from web.fields import Boolean
from web.paging import PageQuery
from web.serializers import Serializer


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
