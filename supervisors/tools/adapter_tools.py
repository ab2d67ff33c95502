"""Adapter tools: each is an address that its owner provides, called on behalf of an agent."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, TypeVar
from unicodedata import normalize
from uuid import UUID

import orjson
import structlog

from storage.channels.messages import Channel
from storage.errors import SecretUnreadable, StorageError
from storage.history.trace_model import NewSpan, Span, Trace
from storage.history.traces import Ending, Traces
from storage.ids import new_id
from storage.model import Agent
from storage.parked_calls import CallKind, CallState, ParkedCall
from storage.postgres.json_values import to_json
from storage.toolbox import MCP, AgentTools, CallableTool, DescribedTool, ListedTool
from supervisors.client_values import MAX_DEPTH, MAX_VALUES, OFF_LOOP_BYTES, has_more_values, is_deeper_than
from supervisors.clock import Clock
from supervisors.json_schema.checker import SchemaChecker
from supervisors.otlp import traceparent_of
from supervisors.outbound import (
    AddressRefused,
    McpFailed,
    McpRequest,
    NoAnswer,
    NotConnected,
    Outbound,
    OutboundAnswer,
    OutboundCall,
)
from supervisors.policy.parked_calls import CallAnswer
from supervisors.text import excerpt, format_timestamp, hide
from supervisors.tools.arguments import UNKNOWN_TOOL, ToolError
from supervisors.tools.mcp_calls import call_mcp
from supervisors.tools.parking import (
    CANNOT_WAIT,
    ResultAddresses,
    end_of_wait,
    needs_person,
    park,
    park_answer,
)
from supervisors.tools.tool import AgentTool, ToolDefinition, ToolInvocation

log = structlog.get_logger(__name__)

MAX_NAME_LENGTH = 64
MAX_ADAPTER_LENGTH = 31  # of the prefix, so that something of the tool's own name remains
DEFAULT_NAME = "tool"
PARAMETERS = "this schema"
Answer = TypeVar("Answer")
FORBIDDEN_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
# Some providers refuse a schema with one of these keywords at its top level.
NOT_AT_TOP_LEVEL = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})
MAX_EXCERPT_BYTES = 2000
MAX_EXCERPT_CHARACTERS = 300
UNKNOWN_TYPES = frozenset({"", "application/octet-stream"})  # servers send these for a body of unknown type
HTML = frozenset({"text/html", "application/xhtml+xml"})
MAX_TRACE_NAME_LENGTH = 255
MAX_HEADER_CHARACTERS = 8192
HEADER_VALUE = re.compile(rf"[!-~]([ -~]{{0,{MAX_HEADER_CHARACTERS - 2}}}[!-~])?")
RETRY_DELAYS_SECONDS = (0.2, 1.0)  # between attempts to connect
ACCEPTED = 202  # with `expires_in`: the result comes later
NOT_KEPT = "The tool was called, and answers later, but that cannot be kept. The call may have an effect."
MAX_RESULT_SECONDS = 2_592_000  # 30 days
MAX_RETRIED_SECONDS = 2.0  # a slower attempt is not retried: it would only be slow again


class AdapterTools:
    """Finds the tools of agents' adapters, and calls them."""

    def __init__(
        self,
        store: AgentTools,
        outbound: Outbound,
        checker: SchemaChecker,
        clock: Clock,
        results: ResultAddresses,
    ) -> None:
        self._store = store
        self._results = results
        self._outbound = outbound
        retried = sum(MAX_RETRIED_SECONDS + pause for pause in RETRY_DELAYS_SECONDS)
        self.max_call_seconds = retried + outbound.max_seconds
        self._checker = checker
        self._clock = clock

    async def definitions(self, agent: Agent, taken: Collection[str]) -> list[ToolDefinition]:
        """Return the agent's present adapter tools under the names for models, none of which is `taken`."""
        by_name = await self._by_name(agent, taken)
        described = await self._store.describe([tool.id for tool in by_name.values()])
        return [
            _definition(name, described[tool.id]) for name, tool in by_name.items() if tool.id in described
        ]

    async def find(self, agent: Agent, name: str, taken: Collection[str]) -> AgentTool | None:
        """Return the tool that models call by this name; None if the agent has none."""
        tool = (await self._by_name(agent, taken)).get(name) if agent.adapters else None
        described = await self._store.describe([tool.id]) if tool else {}
        if tool is None or not described:
            return None
        return AgentTool(_definition(name, described[tool.id]), partial(self._use, tool.id))

    async def _by_name(self, agent: Agent, taken: Collection[str]) -> dict[str, ListedTool]:
        return names_for_models(await self._store.list_for_agent(agent.id), taken)

    async def channel(self, agent: Agent, channel: Channel) -> CallableTool | None:
        """Return the tool that sends the agent's messages by this channel, if it has one."""
        with _readable():
            return await self._store.get_channel(agent.id, channel) if agent.adapters else None

    async def post(
        self, call: ToolInvocation, tool: CallableTool, call_id: UUID, arguments: Mapping[str, Any]
    ) -> Any:
        """Call the tool with unchecked arguments and return its result. Raise ToolError if it fails.

        So does a call that a person would have to allow: a message does not wait.
        """
        if await needs_person(call, tool, arguments, self._checker):
            raise ToolError("needs_approval", CANNOT_WAIT)
        body = self._body(call, tool, call_id, arguments)
        return (await self._post(call, tool, call_id, body)).value

    async def make(self, call: ToolInvocation, parked: ParkedCall) -> CallAnswer:
        """Make a parked call that was approved, as it was made, or go on with it, and return its answer.

        The moment of the call is that of the decision, so that a repeated call has the same body. Raise
        StorageError if the call was not made.
        """
        try:
            with _readable():
                tool = await self._store.get(call.agent.id, parked.tool_id) if parked.tool_id else None
            if tool is None:
                return CallAnswer(error="The agent does not have this tool any more.")
            body = self._body(call, tool, parked.id, call.arguments.given)
            if parked.state is CallState.WAITING:  # its server is asked again and again
                answer = await self._send(call, tool, parked.id, body, (new_id(), new_id()), parked)
            else:
                answer = await self._post_recorded(call, tool, parked.id, body, new_id(), parked)
            if answer.question:
                answer = replace(answer, expires_at=await end_of_wait(call, self._clock.now()))
            return answer
        except ToolError as error:
            return CallAnswer(error=error.message)

    async def _use(self, tool_id: UUID, call: ToolInvocation) -> Any:
        """Call the tool for a model or harness. In a run, the call id is the id of its span."""
        with _readable():
            tool = await self._store.get(call.agent.id, tool_id)
        if tool is None:
            raise ToolError(UNKNOWN_TOOL, "You do not have this tool any more.")
        arguments, call_id = call.arguments.given, call.span_id or new_id()
        body = self._body(call, tool, call_id, arguments)
        if tool.is_enforced:
            await self._require_fit(call.agent.organization_id, tool, arguments)
        if await needs_person(call, tool, arguments, self._checker):
            return await park(call, call_id, CallKind.APPROVAL, tool, arguments)
        answer = await self._post(call, tool, call_id, body)
        if answer.is_final:
            return answer.value
        try:
            return await park_answer(call, call_id, tool, answer)
        except StorageError as error:  # without this the caller would be told to try again
            raise ToolError("not_kept", NOT_KEPT) from error

    def _body(
        self, call: ToolInvocation, tool: CallableTool, call_id: UUID, arguments: Mapping[str, Any]
    ) -> bytes:
        return _request_body(call, tool, call_id, arguments, self._results.of(call_id))

    async def _require_fit(
        self, organization_id: UUID, tool: CallableTool, arguments: Mapping[str, Any]
    ) -> None:
        place = f"the parameters of the tool {tool.name}"
        errors = await self._checker.find_errors(organization_id, place, tool.parameters, dict(arguments))
        if errors:
            message = f"The arguments do not fit the tool's parameters: {'; '.join(errors)}"
            raise ToolError("invalid", message, errors=errors)

    async def _post(self, call: ToolInvocation, tool: CallableTool, call_id: UUID, body: bytes) -> CallAnswer:
        """Send the call, with the trace of its run or else one of its own, and return its answer."""
        if call.run_id is None:
            return await self._post_recorded(call, tool, call_id, body, call_id)
        return await self._send(call, tool, call_id, body, (call.run_id, call.span_id or call_id))

    async def _post_recorded(
        self,
        call: ToolInvocation,
        tool: CallableTool,
        call_id: UUID,
        body: bytes,
        span_id: UUID,
        parked: ParkedCall | None = None,
    ) -> CallAnswer:
        trace_id = new_id()
        async with _recorded(call, trace_id, span_id, tool.name, self._clock):
            return await self._send(call, tool, call_id, body, (trace_id, span_id), parked)

    async def _send(
        self,
        call: ToolInvocation,
        tool: CallableTool,
        call_id: UUID,
        body: bytes,
        trace: tuple[UUID, UUID],
        parked: ParkedCall | None = None,
    ) -> CallAnswer:
        """Send the call, as a span of this trace, or go on with a parked one."""
        if not tool.url:
            raise ToolError("no_url", f"The tool {tool.name} has no URL to be called at.")
        headers = {
            **_secret_headers(tool),
            "Idempotency-Key": str(call_id),
            "traceparent": traceparent_of(*trace),
        }
        owner = call.agent.organization_id
        return await self._result(
            tool, OutboundCall(str(call_id), owner, tool.url, body, tool.secret, headers), parked
        )

    async def _result(self, tool: CallableTool, call: OutboundCall, parked: ParkedCall | None) -> CallAnswer:
        try:
            if tool.handler.startswith(MCP):
                return await call_mcp(tool, call, parked, self._ask_mcp, self._clock)
            answer = await self._sent(partial(self._outbound.post, call))
        except AddressRefused as error:
            raise ToolError("refused_address", f"The tool may not be called: {error}") from error
        except NotConnected as error:
            raise ToolError("not_connected", f"The tool cannot be reached: {error}") from error
        except NoAnswer as error:
            message = f"The tool gave no answer; the call may or may not have had an effect: {error}"
            raise ToolError("no_answer", message) from error
        except McpFailed as error:
            message = hide(str(error).encode(), tool.headers.values()).decode()
            raise ToolError("tool_failed", message) from error
        if len(answer.body) > OFF_LOOP_BYTES:
            value = await asyncio.to_thread(_result_without_secrets, tool, answer)
        else:
            value = _result_without_secrets(tool, answer)
        if answer.status == ACCEPTED and isinstance(value, dict) and "expires_in" in value:
            return CallAnswer(expires_at=self._clock.now() + _expires_in(value["expires_in"]))
        return CallAnswer(value)

    async def _ask_mcp(self, request: McpRequest) -> dict[str, Any]:
        return await self._sent(partial(self._outbound.ask_mcp, request))

    async def _sent(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send the call, again only if nothing was sent: not every tool respects the idempotency key."""
        for seconds in RETRY_DELAYS_SECONDS:
            began_at = self._clock.monotonic()
            try:
                return await send()
            except NotConnected:
                if self._clock.monotonic() > began_at + MAX_RETRIED_SECONDS:
                    raise
                await self._clock.sleep(seconds)
        return await send()


@contextmanager
def _readable() -> Iterator[None]:
    """Turn a config or secret that cannot be decrypted into an error that the model reads."""
    try:
        yield
    except SecretUnreadable as error:
        log.error("tool not called", reason=str(error))
        message = f"The tool was not called: the stored secret {error.place} cannot be decrypted."
        raise ToolError("secret_unreadable", message) from error


def _secret_headers(tool: CallableTool) -> Mapping[str, str]:
    """Return the headers whose values are secrets. Raise ToolError if one of them cannot be sent."""
    if tool.missing_secrets:
        names = ", ".join(tool.missing_secrets)
        message = f"The tool was not called: the adapter config names a secret that does not exist: {names}."
        raise ToolError("secret_missing", message)
    if header := unusable_header(tool.headers):
        message = (
            f"The tool was not called: the secret for the header {header} must be one line of at most "
            f"{MAX_HEADER_CHARACTERS} visible ASCII characters."
        )
        raise ToolError("secret_unusable", message)
    return tool.headers


def unusable_header(headers: Mapping[str, str]) -> str | None:
    """Return the first header whose value cannot be sent; None if all can."""
    return next((header for header, value in headers.items() if not HEADER_VALUE.fullmatch(value)), None)


def _request_body(
    call: ToolInvocation,
    tool: CallableTool,
    call_id: UUID,
    arguments: Mapping[str, Any],
    result: Mapping[str, str],
) -> bytes:
    """Return the body of the call, which is the same for every attempt."""
    data = {
        "tool_call_id": str(call_id),
        "adapter": str(tool.adapter_id),
        "tool": tool.name,
        "handler": tool.handler,
        "agent": str(call.agent.id),
        "run": None if call.run_id is None else str(call.run_id),
        "arguments": dict(arguments),
        "config": tool.config,
        "result": dict(result),
    }
    try:
        return to_json({"type": "tool.call", "timestamp": format_timestamp(call.now), "data": data})
    except TypeError as error:  # from orjson: an integer over 64 bits, a broken text, or too many levels
        raise ToolError("invalid", f"The arguments cannot be sent: {error}.") from error


def _definition(name: str, tool: DescribedTool) -> ToolDefinition:
    description, parameters = for_models(tool.description, tool.parameters, is_schema=tool.is_enforced)
    return ToolDefinition(name, description, parameters, tool.adapter_id, tool.idempotent)


def for_models(description: str, parameters: Any, *, is_schema: bool) -> tuple[str, dict[str, Any]]:
    """Return the tool's description and parameters in a form that model providers accept.

    Parameters that providers would refuse as a schema become part of the description.
    """
    if is_schema and isinstance(parameters, dict) and not NOT_AT_TOP_LEVEL & parameters.keys():
        return description, {"properties": {}} | parameters | {"type": "object"}
    if parameters is not None:
        text = parameters if isinstance(parameters, str) else orjson.dumps(parameters).decode()
        description = f"{description}\n\nIt takes: {text}".strip()
    return description, {"type": "object", "properties": {}}


def may_take_arguments(parameters: Any) -> bool:
    """Return whether an object can satisfy these parameters, provided that they are a JSON Schema."""
    if not isinstance(parameters, dict):
        return False
    kind = parameters.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


async def check_parameters(
    checker: SchemaChecker, organization_id: UUID, parameters: Any
) -> tuple[list[str], bool]:
    """Return why a tool cannot have these parameters, and whether they are a schema that calls must fit.

    It can have any JSON value without references to another document, as nothing is fetched.
    """
    if parameters is None:
        return [], False
    if errors := await checker.find_outside_references(organization_id, PARAMETERS, parameters):
        return errors, False
    may_fit = may_take_arguments(parameters)
    return [], may_fit and not await checker.find_schema_errors(organization_id, PARAMETERS, parameters)


def names_for_models(tools: Iterable[ListedTool], taken: Collection[str]) -> dict[str, ListedTool]:
    """Return the tools by name, in the order of their adapters; of one adapter, the oldest first.

    The first tool of a name keeps it; a later one gets its adapter's name as a prefix. So a tool added to an
    agent's last adapter, or with a new last adapter, changes no other name.
    """
    by_name: dict[str, ListedTool] = {}
    for tool in sorted(tools, key=lambda tool: (tool.position, tool.id)):
        free = (name for name in _candidates(tool) if name not in taken and name not in by_name)
        by_name[next(free)] = tool
    return by_name


def _candidates(tool: ListedTool) -> Iterator[str]:
    """Yield the names that a tool can have, best first, without an end."""
    name = slug(tool.name)
    yield name
    name = f"{slug(tool.adapter_name)[:MAX_ADAPTER_LENGTH]}_{name}"[:MAX_NAME_LENGTH]
    yield name
    for number in count(2):
        yield f"{name[: MAX_NAME_LENGTH - len(f'_{number}')]}_{number}"


def slug(text: str) -> str:
    """Return the text in the characters of names: without accents, and with `_` for anything else."""
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode()
    return FORBIDDEN_IN_NAMES.sub(" ", plain).strip().replace(" ", "_")[:MAX_NAME_LENGTH] or DEFAULT_NAME


def _expires_in(seconds: Any) -> timedelta:
    """Return how long a tool may take that sends its result later."""
    if type(seconds) is not int or not 1 <= seconds <= MAX_RESULT_SECONDS:
        raise _unusable(f"202 with an expires_in that is no integer from 1 to {MAX_RESULT_SECONDS:,}")
    return timedelta(seconds=seconds)


def _result_without_secrets(tool: CallableTool, answer: OutboundAnswer) -> Any:
    """Return the result in an answer, which may repeat the headers of the call."""
    if tool.headers:
        answer = replace(answer, body=hide(answer.body, tool.headers.values()))
    return result_of(answer)


def result_of(answer: OutboundAnswer) -> Any:
    """Return the answer as a JSON value; None for an empty body. Raise ToolError if it is no result."""
    kind = answer.content_type.partition(";")[0].strip().lower()
    if not 200 <= answer.status < 300:
        raise _failed(answer, kind)
    if not answer.body.strip():
        return None
    if _is_json(kind):
        return _parsed(answer.body)
    if kind in UNKNOWN_TYPES:
        return _guessed(answer.body)
    if kind.startswith("text/") and kind not in HTML:
        return answer.body.decode(errors="replace")
    raise _unusable(f"{kind}, which is neither JSON nor text")


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _parsed(body: bytes) -> Any:
    """Parse JSON. Raise ToolError if it is invalid, too much, or nested too deeply to be serialized again."""
    if has_more_values(body, MAX_VALUES):
        raise _unusable(f"JSON of more than {MAX_VALUES:,} values")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _unusable(f"invalid JSON: {error}") from error
    if is_deeper_than(MAX_DEPTH, value):
        raise _unusable(f"JSON that is nested deeper than {MAX_DEPTH} levels")
    return value


def _guessed(body: bytes) -> Any:
    """Parse the body as JSON, or else as text."""
    with suppress(ToolError):
        return _parsed(body)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _unusable("bytes that are neither JSON nor text") from error


def _unusable(what: str) -> ToolError:
    return ToolError("unusable_answer", f"The tool answered {what}.")


def _failed(answer: OutboundAnswer, kind: str) -> ToolError:
    is_text = _is_json(kind) or kind in UNKNOWN_TYPES or kind.startswith("text/")
    excerpt = _excerpt(answer.body) if is_text else ""
    details = f": {excerpt}" if excerpt else "."
    return ToolError("tool_failed", f"The tool answered {answer.status}{details}", status=answer.status)


def _excerpt(body: bytes) -> str:
    """Return the beginning on one line; blank if it looks like HTML, which is of no use to a model."""
    start = body[:MAX_EXCERPT_BYTES].decode(errors="replace")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in start).split())
    if line.startswith("<"):
        return ""
    return line if len(line) <= MAX_EXCERPT_CHARACTERS else f"{line[:MAX_EXCERPT_CHARACTERS]}…"


@asynccontextmanager
async def _recorded(
    call: ToolInvocation, trace_id: UUID, span_id: UUID, tool: str, clock: Clock
) -> AsyncIterator[None]:
    """Keep a trace of the block, which calls a tool. The trace can be read while the call goes on.

    A trace that cannot be ended stays open: the result of the call matters more.
    """
    agent, traces = call.agent, call.stores.traces
    call.metadata["gen_ai.operation.name"] = "execute_tool"
    call.metadata["gen_ai.tool.name"] = tool
    call.metadata.setdefault("gen_ai.tool.call.id", str(span_id))
    name = excerpt(f"execute_tool {tool}", MAX_TRACE_NAME_LENGTH - 1)
    trace = Trace(trace_id, agent.organization_id, agent.id, name, clock.now(), None, "", {})
    await traces.insert(trace)
    error = "cancelled"
    try:
        yield
        error = ""
    except ToolError as failure:
        error = failure.message
        raise
    except Exception as failure:
        error = f"internal error: {type(failure).__name__}"
        raise
    finally:
        now = max(clock.now(), trace.started_at)
        await _end_trace(traces, trace, span_id, call.metadata, now, excerpt(error, 1000))


async def _end_trace(
    traces: Traces, trace: Trace, span_id: UUID, metadata: Mapping[str, Any], now: datetime, error: str
) -> None:
    span = Span(span_id, trace.id, None, trace.name, "tool", trace.started_at, now, error)
    try:
        await traces.insert_spans([NewSpan(span, to_json(metadata).decode())])
        await traces.end(trace.id, Ending(now, error=error))
    except StorageError as failure:
        log.warning("trace of a tool call not ended", trace=str(trace.id), reason=str(failure))
