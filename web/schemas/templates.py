"""Templates: request body, deletion query and response."""

from datetime import datetime
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from storage.model import ReasoningEffort, Template
from web.fields import MAX_INT32, MAX_SIDE_TEXT, Boolean, Choice, Integer, Line, Money, Text, Url
from web.request.parsing import Body


class TemplateBody(Body):
    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    system_prompt = Text(load_default="")
    default_model = Line(load_default="", max_length=255)
    default_reasoning_effort = Choice(ReasoningEffort, load_default=ReasoningEffort.NONE)
    thinking_max_tokens = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    max_turns = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    debounce_window_seconds = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    harness_git_ref = Line(load_default="", max_length=255)
    agent_created_webhook_url = Url(load_default="", max_length=200)
    tool_call_secret = Text(load_default="", max_length=255)
    max_cost_usd_per_day = Money(allow_none=True, load_default=None)


class TemplateDeletionQuery(Body):
    """With `detach` agents keep what they inherit; without it a template in use is not deleted."""

    detach = Boolean(load_default=False)


class TemplateResponse(TypedDict):
    """`tool_call_secret` is null in an answer to a repeated request, instead of a secret."""

    id: UUID
    organization: UUID
    name: str
    created_at: datetime
    description: str
    system_prompt: str
    default_model: str
    default_reasoning_effort: ReasoningEffort
    thinking_max_tokens: int
    max_turns: int
    debounce_window_seconds: int
    harness_git_ref: str
    agent_created_webhook_url: str
    tool_call_secret: str | None
    max_cost_usd_per_day: Decimal | None


def serialize_template(template: Template) -> TemplateResponse:
    return {
        "id": template.id,
        "organization": template.organization_id,
        "name": template.name,
        "created_at": template.created_at,
        "description": template.description,
        "system_prompt": template.system_prompt,
        "default_model": template.default_model,
        "default_reasoning_effort": template.default_reasoning_effort,
        "thinking_max_tokens": template.thinking_max_tokens,
        "max_turns": template.max_turns,
        "debounce_window_seconds": template.debounce_window_seconds,
        "harness_git_ref": template.harness_git_ref,
        "agent_created_webhook_url": template.agent_created_webhook_url,
        "tool_call_secret": template.tool_call_secret,
        "max_cost_usd_per_day": template.max_cost_usd_per_day,
    }
