"""The traces of tool calls outside a run: one trace for each signed call, with one span."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

import structlog

from storage.errors import StorageError
from storage.history.trace_model import NewSpan, Span, Trace
from storage.history.traces import Ending
from storage.postgres.json_values import to_json
from supervisors.clock import Clock
from supervisors.ports import TraceStore
from supervisors.text import excerpt
from supervisors.tools.errors import ToolError
from supervisors.tools.toolkit import ToolInvocation

MAX_NAME_LENGTH = 255

log = structlog.get_logger(__name__)


@asynccontextmanager
async def recorded(
    call: ToolInvocation, trace_id: UUID, span_id: UUID, tool: str, clock: Clock
) -> AsyncIterator[None]:
    """Keep a trace of the block, which calls a tool. The trace can be read while the call goes on.

    A trace that cannot be ended stays open: the result of the call matters more.
    """
    agent, traces = call.agent, call.stores.traces
    name = excerpt(f"execute_tool {tool}", MAX_NAME_LENGTH - 1)
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
        await _end(traces, trace, span_id, tool, max(clock.now(), trace.started_at), excerpt(error, 1000))


async def _end(traces: TraceStore, trace: Trace, span_id: UUID, tool: str, now: datetime, error: str) -> None:
    span = Span(span_id, trace.id, None, trace.name, "tool", trace.started_at, now, error)
    metadata = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": str(span_id),
    }
    try:
        await traces.insert_spans([NewSpan(span, to_json(metadata).decode())])
        await traces.end(trace.id, Ending(now, error=error))
    except StorageError as failure:
        log.warning("trace of a tool call not ended", trace=str(trace.id), reason=str(failure))
