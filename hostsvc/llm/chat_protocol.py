"""The chat-completions protocol of OpenAI: a request as its JSON, and answers, whole or streamed, as ours.

Only what is needed is read, and that leniently: the many servers that speak it differ in the rest.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from hostsvc.llm.providers import ThinkingField
from storage.ids import new_id
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse, ToolRequest
from supervisors.text import excerpt, storable
from supervisors.tools.toolkit import ToolDefinition

Json = dict[str, Any]

MAX_TOKENS = 2**31  # of a call; sums of them, and what they cost, stay within what the database holds
EXCERPT_CHARACTERS = 300
WORD_CHARACTERS = 255  # of an id or a name


class NotTheProtocol(Exception):
    """What came is no answer in the terms of the protocol: what is wrong with it, and what it said, uncut."""

    def __init__(self, what: str, said: object = "") -> None:
        super().__init__(what)
        self.said = said if isinstance(said, str) else json.dumps(said)


def body_of(request: ModelRequest, thinking: ThinkingField, *, stream: bool) -> Json:
    """The body of the call."""
    body: Json = {"model": request.model, "messages": [_message(each) for each in request.messages]}
    if request.tools:
        body["tools"] = [_tool(each) for each in request.tools]
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body | _thinking(request, thinking)


def answer_of(body: bytes) -> ModelResponse:
    """The answer in a whole body; raises NotTheProtocol."""
    payload = _parsed(body)
    choice = _first_choice(payload)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise NotTheProtocol("it holds no choices[0].message", payload)
    return ModelResponse(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        tool_requests=_told_apart(_tool_request(each) for each in _dicts(message.get("tool_calls"))),
        id=_word(payload.get("id")),
        model=_word(payload.get("model")),
        finish_reason=_word(choice.get("finish_reason")),
        **_usage(payload.get("usage")),
    )


@dataclass(slots=True)
class StreamedAnswer:
    """Puts an answer together from the chunks of a stream."""

    _texts: list[str] = field(default_factory=list)
    _calls: list["_StreamedCall"] = field(default_factory=list)
    _places: dict[int, "_StreamedCall"] = field(default_factory=dict)  # which call goes on at which index
    _usage: dict[str, int] = field(default_factory=dict)
    _id: str = ""
    _model: str = ""
    _finish_reason: str = ""
    _began: bool = False

    def add(self, chunk: Any) -> None:
        """The next chunk; raises NotTheProtocol."""
        if not isinstance(chunk, dict):
            raise NotTheProtocol("a chunk of its stream is no object", chunk)
        self._began = True
        self._id = self._id or _word(chunk.get("id"))
        self._model = self._model or _word(chunk.get("model"))
        usage = _usage(chunk.get("usage"))
        if any(usage.values()):  # some servers end with one of nothing but zeros
            self._usage = usage
        choice = _first_choice(chunk)
        if choice is None:  # so comes the usage
            return
        self._finish_reason = _word(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._texts.append(_text(delta.get("content")) or _text(delta.get("refusal")))
            for position, call in enumerate(_dicts(delta.get("tool_calls"))):
                self._add_to_call(position, call)

    def answer(self) -> ModelResponse:
        """What came; NotTheProtocol if the end is missing."""
        if not self._began:
            raise NotTheProtocol("it is no stream")
        if not self._finish_reason:
            raise NotTheProtocol("its stream ended in the middle of the answer")
        return ModelResponse(
            text="".join(self._texts),
            tool_requests=_told_apart(call.request() for call in self._calls),
            id=self._id,
            model=self._model,
            finish_reason=self._finish_reason,
            **self._usage,
        )

    def _add_to_call(self, position: int, part: Json) -> None:
        """Some servers give all calls of an answer the same index, or none: a new id tells them apart."""
        function = part.get("function")
        function = function if isinstance(function, dict) else {}
        index, id_, name = part.get("index"), _text(part.get("id")), _word(function.get("name"))
        place = index if isinstance(index, int) else position
        call = self._places.get(place)
        if call is None or (id_ and call.id not in {"", id_}) or (name and not id_ and index is None):
            call = self._places[place] = _StreamedCall()
            self._calls.append(call)
        call.id = call.id or id_
        call.name = call.name or name
        call.arguments.append(_arguments(function.get("arguments")))


@dataclass(slots=True)
class _StreamedCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def request(self) -> ToolRequest:
        return ToolRequest(self.id, self.name, "".join(self.arguments))


def error_text(text: str) -> str:
    """What a server says of a failure, on one line: its error's message, else the beginning of its body."""
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        body = None
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return excerpt(message if isinstance(message, str) else text, EXCERPT_CHARACTERS)


def _message(message: ChatMessage) -> Json:
    shown: Json = {"role": str(message.speaker), "content": message.text}
    if message.speaker is ChatRole.TOOL:
        shown["tool_call_id"] = message.tool_call_id
    if message.tool_requests:
        shown["content"] = message.text or None
        shown["tool_calls"] = [
            {
                "id": request.id,
                "type": "function",
                "function": {"name": request.name, "arguments": _repeatable(request.arguments)},
            }
            for request in message.tool_requests
        ]
    return shown


def _repeatable(arguments: str) -> str:
    """Some servers fail on arguments that are not JSON when they see them again; the tool has said so."""
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return "{}"
    return arguments


def _tool(tool: ToolDefinition) -> Json:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _thinking(request: ModelRequest, field_: ThinkingField) -> Json:
    """A limit of tokens says more than an effort; servers that take both take one of them at a time."""
    most = request.thinking_max_tokens
    match field_ if most else "none":
        case "reasoning":
            return {"reasoning": {"max_tokens": most}}
        case "thinking":
            return {"thinking": {"type": "enabled", "budget_tokens": most}}
        case "thinking_token_budget":
            return {"thinking_token_budget": most}
        case _:
            return {"reasoning_effort": request.reasoning_effort} if request.reasoning_effort else {}


def _first_choice(payload: Any) -> Json | None:
    choices = _dicts(payload.get("choices")) if isinstance(payload, dict) else []
    return choices[0] if choices else None


def _tool_request(call: Mapping[str, Any]) -> ToolRequest:
    function = call.get("function")
    if not isinstance(function, dict):
        raise NotTheProtocol("a tool call of it names no function", call)
    return ToolRequest(
        _text(call.get("id")), _word(function.get("name")), _arguments(function.get("arguments"))
    )


def _told_apart(requests: Iterable[ToolRequest]) -> tuple[ToolRequest, ...]:
    """Each under an id of its own. An id has no meaning but in our own next request, where it must be one."""
    by_id: dict[str, ToolRequest] = {}
    for request in requests:
        usable = 0 < len(request.id) <= WORD_CHARACTERS and request.id not in by_id
        kept = request if usable else replace(request, id=f"call_{new_id().hex}")
        by_id[kept.id] = kept
    return tuple(by_id.values())


def _arguments(value: Any) -> str:
    """As the model wrote them; some servers have parsed them already."""
    return json.dumps(value) if isinstance(value, dict) else _text(value)


def _parsed(body: bytes) -> Any:
    """What is JSON to orjson, and what Python takes as well: half a surrogate pair, NaN, other encodings."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        what = "it is not JSON" if body else "it is empty"
        raise NotTheProtocol(what, body.decode(errors="replace")) from None


def _word(value: Any) -> str:
    """A text that is an id or a name."""
    return excerpt(_text(value), WORD_CHARACTERS)


def _text(value: Any) -> str:
    """A text, also where it comes in parts; blank for anything else."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in _dicts(value))
    return storable(value) if isinstance(value, str) else ""


def _dicts(value: Any) -> Sequence[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _usage(usage: Any) -> dict[str, int]:
    """Nothing where a server says nothing."""
    if not isinstance(usage, dict):
        return {}
    details = usage.get("prompt_tokens_details")
    input_tokens = _count(usage.get("prompt_tokens"))
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return {
        "input_tokens": input_tokens,
        "output_tokens": _count(usage.get("completion_tokens")),
        "cached_tokens": min(cached, input_tokens),
    }


def _count(value: Any) -> int:
    """Some servers write 12.0 or "12"; what cannot be a count is none."""
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return count if 0 <= count < MAX_TOKENS else 0
