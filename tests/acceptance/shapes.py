"""The resources as clients know them: each field with a check of its type."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

Kind = Callable[[Any], bool]
Shape = Mapping[str, Kind]

DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def any_json(_: Any) -> bool:
    return True


def boolean(value: Any) -> bool:
    return isinstance(value, bool)


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def text(value: Any) -> bool:
    return isinstance(value, str)


def uuid(value: Any) -> bool:
    return text(value) and str(UUID(value)) == value


def date_time(value: Any) -> bool:
    return text(value) and DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value))


def nullable(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


def one_of(*choices: str) -> Kind:
    return lambda value: value in choices


def array(kind: Kind) -> Kind:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def check(answer: Any, shape: Shape) -> None:
    """Assert that each field of the shape exists with its type; further fields are allowed."""
    missing = shape.keys() - answer.keys()
    assert not missing, f"{sorted(missing)} missing in {answer}"
    wrong = {name: answer[name] for name, kind in shape.items() if not kind(answer[name])}
    assert not wrong, f"of another kind than stated: {wrong}"


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
SOURCES = ("email", "sms", "mms", "system", "agent", "subagent", "browser", "api", "portal")

AGENT: Shape = {
    "id": uuid,
    "adapters": array(uuid),
    "organization": uuid,
    "template": nullable(uuid),
    "parent_name": text,
    "template_name": nullable(text),
    "tags": array(text),
    "name": text,
    "model": text,
    "created_at": date_time,
    "timezone": text,
    "system_prompt": text,
    "sleep_until": nullable(date_time),
    "email_alias": nullable(text),
    "status": one_of("running", "sleeping", "archived"),
    "run_started_at": nullable(date_time),
    "last_wake_reason": text,
    "last_wake_interrupted_sleep_until": nullable(date_time),
    "max_turns": integer,
    "max_sleep_hours": nullable(integer),
    "harness_git_ref": nullable(text),
    "reasoning_effort": one_of(*EFFORTS, ""),
    "debounce_window_seconds": nullable(integer),
    "call_voice_id": text,
    "purpose": one_of("production", "eval", "dev"),
    "parent": nullable(uuid),
}

TEMPLATE: Shape = {
    "id": uuid,
    "organization": uuid,
    "name": text,
    "created_at": date_time,
    "description": text,
    "system_prompt": text,
    "default_model": text,
    "default_reasoning_effort": one_of(*EFFORTS),
    "thinking_max_tokens": integer,
    "max_turns": integer,
    "debounce_window_seconds": integer,
    "harness_git_ref": text,
    "agent_created_webhook_url": text,
    "tool_call_secret": text,
}

ADAPTER: Shape = {
    "id": uuid,
    "name": text,
    "description": text,
    "visibility": one_of("public", "private"),
    "organization_id": uuid,
    "created_at": date_time,
    "detail_url": text,
    "config_schema": any_json,
}

TOOL: Shape = {
    "id": uuid,
    "adapter": uuid,
    "name": text,
    "description": text,
    "created_at": date_time,
    "parameters": any_json,
    "url": text,
    "handler": text,
    "detail_url": text,
}

TRACE: Shape = {
    "id": uuid,
    "name": text,
    "agent": uuid,
    "started_at": date_time,
    "ended_at": nullable(date_time),
    "error": text,
    "metadata": any_json,
}

SPAN: Shape = {
    "id": uuid,
    "trace": uuid,
    "name": text,
    "started_at": date_time,
    "duration_ms": nullable(integer),
    "has_error": boolean,
    "parent": nullable(uuid),
    "span_type": text,
    "ended_at": nullable(date_time),
}

TRACE_ITEM: Shape = {
    **TRACE,
    "agent_name": text,
    "template_name": text,
    "duration_ms": nullable(integer),
    "span_count": integer,
    "has_error": boolean,
}

PAGINATION: Shape = {"total_count": integer, "limit": integer, "offset": integer, "has_more": boolean}

USAGE: Shape = {
    "agent_id": uuid,
    "agent_name": text,
    "start_date": date_time,
    "end_date": date_time,
    "input_tokens": integer,
    "output_tokens": integer,
    "cached_tokens": integer,
    "total_cost_usd": number,
    "llm_calls": integer,
    "priced": boolean,
    "model_breakdown": lambda value: isinstance(value, dict),
}

API_KEY: Shape = {"id": uuid, "name": text, "is_active": boolean, "created_at": date_time}

NOTIFICATION: Shape = {
    "id": uuid,
    "agent": uuid,
    "source": one_of(*SOURCES),
    "source_id": text,
    "title": text,
    "body": text,
    "priority": one_of("high", "low"),
    "created_at": date_time,
    "scheduled_for": nullable(date_time),
    "cleared": boolean,
    "cleared_at": nullable(date_time),
}
