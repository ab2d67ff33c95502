"""The chat-completions protocol of OpenAI: builds request bodies, and parses responses, whole or streamed.

It reads only the fields it needs, and leniently: servers differ in everything else.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from hostsvc.llm.providers import ThinkingField
from storage.ids import new_id
from storage.model import ToolChoice
from supervisors.llm.port import (
    IMAGE_TYPES,
    ChatMessage,
    ChatRole,
    ModelFile,
    ModelOptions,
    ModelRequest,
    ModelResponse,
    ToolCall,
)
from supervisors.text import excerpt, storable
from supervisors.tools.tool import ToolDefinition
from web.errors import TooLarge
from web.request.json_text import MAX_VALUES, check_value_count

Json = dict[str, Any]

MAX_TOKENS = 2**31  # of a call; the database can hold sums of them, and their cost
MAX_TOOL_CALLS = 1000  # of a response; a model that repeats itself writes many more
EXCERPT_CHARACTERS = 300
NAME_CHARACTERS = 255  # of an id or a name


class InvalidResponse(Exception):
    """A response violates the protocol; the message says how, `content` is the response in full."""

    def __init__(self, problem: str, content: object = "") -> None:
        super().__init__(problem)
        self.content = content if isinstance(content, str) else json.dumps(content)


# The options that a model may refuse, by their fields. OpenAI's reasoning models know the limit of an answer
# only by its newer name, and many servers only by the older one.
LIMITS = ("max_tokens", "max_completion_tokens")
OPTIONS = ("reasoning_effort", "temperature", *LIMITS, "tool_choice", "response_format")
FILES = "files"  # the files of messages, which can be refused, too


def request_body(
    request: ModelRequest, thinking: ThinkingField, refused: Sequence[str] = (), *, stream: bool
) -> Json:
    """Build the body of a call, without the options and files that were `refused`, in this order."""
    messages = [
        _message(message, with_files=FILES not in refused)
        for message in request.messages
        if not _is_empty_answer(message)
    ]
    body: Json = {"model": request.model, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body |= _thinking(request.options, thinking) | _options(request)
    for name in refused:
        value = body.pop(name, None)
        if value is not None and name == LIMITS[0]:
            body[LIMITS[1]] = value
    return body


def refused_option(body: Json, error: str) -> str | None:
    """Return the option in the body that an error names, else "files" if the body has any, else None."""
    named = (name for name in OPTIONS if name in body and re.search(rf"\b{name}\b", error))
    has_files = any(isinstance(message["content"], list) for message in body["messages"])
    return next(named, FILES if has_files else None)


def parse_response(body: bytes) -> ModelResponse:
    """Parse a whole response. Raise InvalidResponse."""
    payload = parse_json(body)
    choice = _first_choice(payload)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise InvalidResponse("it holds no choices[0].message", payload)
    calls = _dicts(message.get("tool_calls"))
    _check_number_of_calls(len(calls))
    return ModelResponse(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        tool_calls=_with_unique_ids(map(_tool_call, calls)),
        id=_name(payload.get("id")),
        model=_name(payload.get("model")),
        finish_reason=_name(choice.get("finish_reason")),
        reasoning=_reasoning(message),
        **_usage(payload.get("usage")),
    )


@dataclass(slots=True)
class StreamedResponse:
    """Assembles a response from the chunks of a stream. `on_text` is called with each piece of its text."""

    on_text: Callable[[str], None] | None = None
    _texts: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _calls: list["_StreamedCall"] = field(default_factory=list)
    _by_index: dict[int, "_StreamedCall"] = field(default_factory=dict)  # the current call of each index
    _usage: Json = field(default_factory=dict)
    _id: str = ""
    _model: str = ""
    _finish_reason: str = ""
    _has_chunks: bool = False

    def add(self, chunk: Any) -> None:
        """Add the next chunk. Raise InvalidResponse."""
        if not isinstance(chunk, dict):
            raise InvalidResponse("a chunk of its stream is not an object", chunk)
        if chunk.get("error"):
            raise InvalidResponse("its stream ends with an error", chunk)
        self._has_chunks = True
        self._id = self._id or _name(chunk.get("id"))
        self._model = self._model or _name(chunk.get("model"))
        usage = _usage(chunk.get("usage"))
        if any(usage.values()):  # some servers end with a usage of zeros
            self._usage = usage
        choice = _first_choice(chunk)
        if choice is None:  # a chunk with the usage alone
            return
        self._finish_reason = _name(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta")
        if isinstance(delta, dict):
            text = _text(delta.get("content")) or _text(delta.get("refusal"))
            self._texts.append(text)
            if text and self.on_text is not None:
                self.on_text(text)
            self._thoughts.append(_reasoning(delta))
            for position, call in enumerate(_dicts(delta.get("tool_calls"))):
                self._add_to_call(position, call)

    def result(self) -> ModelResponse:
        """Return the complete response. Raise InvalidResponse if its end is missing."""
        if not self._has_chunks:
            raise InvalidResponse("it is not a stream")
        if not self._finish_reason:
            raise InvalidResponse("its stream ended in the middle of the answer")
        return self._response()

    def partial(self) -> ModelResponse | None:
        """Return the part of the response that has arrived; None if nothing has."""
        return self._response() if self._has_chunks else None

    def _response(self) -> ModelResponse:
        return ModelResponse(
            text="".join(self._texts),
            tool_calls=_with_unique_ids(call.complete() for call in self._calls),
            id=self._id,
            model=self._model,
            finish_reason=self._finish_reason,
            reasoning="".join(self._thoughts),
            **self._usage,
        )

    def _add_to_call(self, position: int, part: Json) -> None:
        """Add a part to its call. Some servers repeat one index or omit it: there a new id starts a call."""
        function = part.get("function")
        function = function if isinstance(function, dict) else {}
        index, id_, name = part.get("index"), _text(part.get("id")), _name(function.get("name"))
        index_or_position = index if isinstance(index, int) else position
        call = self._by_index.get(index_or_position)
        if call is None or (id_ and call.id not in {"", id_}) or (name and not id_ and index is None):
            _check_number_of_calls(len(self._calls) + 1)
            call = self._by_index[index_or_position] = _StreamedCall()
            self._calls.append(call)
        call.id = call.id or id_
        call.name = call.name or name
        call.arguments.append(_arguments(function.get("arguments")))


@dataclass(slots=True)
class _StreamedCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def complete(self) -> ToolCall:
        return ToolCall(self.id, self.name, "".join(self.arguments))


def error_text(text: str) -> str:
    """Return the error message in a response on one line, or else the beginning of the response."""
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        body = None
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return excerpt(message if isinstance(message, str) else text, EXCERPT_CHARACTERS)


def _is_empty_answer(message: ChatMessage) -> bool:
    """Return whether the model said and called nothing: some servers refuse such a message forever after."""
    return message.role is ChatRole.ASSISTANT and not message.tool_calls and not message.text.strip()


def _message(message: ChatMessage, *, with_files: bool) -> Json:
    body: Json = {"role": str(message.role), "content": message.text}
    if message.files and with_files:
        body["content"] = [{"type": "text", "text": message.text}, *map(_file, message.files)]
    if message.role is ChatRole.TOOL:
        body["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        body["content"] = message.text or None
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _valid_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return body


def _file(file: ModelFile) -> Json:
    url = f"data:{file.content_type};base64,{b64encode(file.content).decode()}"
    if file.content_type in IMAGE_TYPES:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name, "file_data": url}}


def _valid_arguments(arguments: str) -> str:
    """Replace arguments that are not JSON: some servers fail on them in every further request."""
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


def _options(request: ModelRequest) -> Json:
    """Build the fields for the other options. Servers refuse a tool choice without tools."""
    options = request.options
    body: Json = {}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.max_output_tokens:
        body["max_tokens"] = options.max_output_tokens
    if request.tools and options.tool_choice is not ToolChoice.AUTO:
        body["tool_choice"] = options.tool_choice
    if options.response_format is not None:
        schema = {"name": "answer", "schema": options.response_format}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _thinking(options: ModelOptions, field_: ThinkingField) -> Json:
    """Build the field for thinking. A token limit replaces the effort: servers accept only one of them."""
    limit = options.thinking_max_tokens
    match field_ if limit else "none":
        case "reasoning":
            return {"reasoning": {"max_tokens": limit}}
        case "thinking":
            return {"thinking": {"type": "enabled", "budget_tokens": limit}}
        case "thinking_token_budget":
            return {"thinking_token_budget": limit}
        case _:
            return {"reasoning_effort": options.reasoning_effort} if options.reasoning_effort else {}


def _first_choice(payload: Any) -> Json | None:
    choices = _dicts(payload.get("choices")) if isinstance(payload, dict) else []
    return choices[0] if choices else None


def _check_number_of_calls(count: int) -> None:
    if count > MAX_TOOL_CALLS:
        raise InvalidResponse(f"it has more than {MAX_TOOL_CALLS} tool calls")


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function")
    if not isinstance(function, dict):
        raise InvalidResponse("one of its tool calls names no function", call)
    return ToolCall(_text(call.get("id")), _name(function.get("name")), _arguments(function.get("arguments")))


def _with_unique_ids(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Replace missing, long and repeated ids: our next request needs a unique id for each call."""
    by_id: dict[str, ToolCall] = {}
    for call in calls:
        is_usable = 0 < len(call.id) <= NAME_CHARACTERS and call.id not in by_id
        id_ = call.id if is_usable else f"call_{new_id().hex}"
        by_id[id_] = replace(call, id=id_)
    return tuple(by_id.values())


def _arguments(value: Any) -> str:
    """Return the arguments as text; some servers send them parsed."""
    return json.dumps(value) if isinstance(value, dict) else _text(value)


def parse_json(body: bytes) -> Any:
    """Parse JSON strictly, or else as Python does: with lone surrogates, NaN and other encodings."""
    try:
        check_value_count(body, MAX_VALUES)
        return orjson.loads(body)
    except TooLarge:
        raise InvalidResponse(f"it holds more than {MAX_VALUES:,} values") from None
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        problem = "it is not JSON" if body else "it is empty"
        raise InvalidResponse(problem, body.decode(errors="replace")) from None


def _name(value: Any) -> str:
    """Return a text cut to the length of an id or a name."""
    return excerpt(_text(value), NAME_CHARACTERS)


def _text(value: Any) -> str:
    """Return a text, joined if it comes in parts; a blank for anything else."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in _dicts(value))
    return storable(value) if isinstance(value, str) else ""


def _reasoning(message: Json) -> str:
    """Return what the model thought, by the field of the server: the protocol itself defines none."""
    return _text(message.get("reasoning_content")) or _text(message.get("reasoning"))


def _dicts(value: Any) -> Sequence[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _usage(usage: Any) -> Json:
    """Return the token counts, or {} if the server reports no usage."""
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
    """Return a count, also from 12.0 or "12" as some servers write it; 0 for anything else."""
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return count if 0 <= count < MAX_TOKENS else 0
