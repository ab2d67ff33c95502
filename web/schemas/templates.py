"""Templates: request body, deletion query and response."""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import orjson

from storage.agents.templates import StoredTemplate
from storage.model import CarryOver, Content, ReasoningEffort, Reply, Template, Unpriced
from storage.postgres.json_pages import SECRET_MARK, JsonItem, rewrite_marked
from supervisors.settings import MAX_CONTEXT_TOKENS
from web.fields import MAX_INT32, MAX_SIDE_TEXT, Boolean, Choice, Integer, Line, Money, Text, Url
from web.json import to_json
from web.listed_items import columns_of
from web.request.parsing import Body
from web.secret_fields import SecretNames

MAX_RETENTION_DAYS = 36_500


class TemplateBody(Body):
    """The writable fields of a template."""

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
    tool_call_secret = Text(load_default="", max_length=255, allow_none=True)
    """Signs webhooks and tool calls; "" leaves them unsigned. null is like leaving the field out, so that a
    member can send back what it has read."""
    max_cost_usd_per_day = Money(allow_none=True, load_default=None)
    context_tokens = Integer(min_value=0, max_value=MAX_CONTEXT_TOKENS, load_default=0)
    carry_over = Choice(CarryOver, load_default=CarryOver.JOURNAL)
    reply = Choice(Reply, load_default=Reply.TOOL)
    content = Choice(Content, blank=True, load_default="")
    content_days = Integer(min_value=0, max_value=MAX_RETENTION_DAYS, allow_none=True, load_default=None)
    environment_secrets = SecretNames(load_default=list)
    unpriced = Choice(Unpriced, load_default=Unpriced.REFUSE)


class TemplateDeletionQuery(Body):
    """How to delete a template."""

    detach = Boolean(load_default=False)
    """Whether agents of the template keep the settings that they inherit; without it a template in use is not
    deleted."""


class TemplateResponse(TypedDict):
    """Settings that many agents share. A change reaches all agents that leave the setting blank."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization that the template belongs to."""
    name: str
    """Any name; several templates may have the same."""
    created_at: datetime
    """When the template was created."""
    description: str
    """A text for people; "" if there is none."""
    system_prompt: str
    """Instructions to the model, for agents that have none of their own; "": none."""
    default_model: str
    """The model that is copied into a new agent that names none; "": each agent must name one."""
    default_reasoning_effort: ReasoningEffort
    """How much the model should think, for agents that do not say. `none` sends no effort to the model."""
    thinking_max_tokens: int
    """The maximum number of tokens for thinking, sent instead of the effort to models that know it; 0: no
    maximum is sent."""
    max_turns: int
    """How many turns a run may have, for agents that do not say; 0: `runs.max_turns` of the service."""
    debounce_window_seconds: int
    """How many seconds a conversation must pause before it wakes an agent that has no window of its own; 0:
    it wakes at once."""
    harness_git_ref: str
    """The branch, tag or commit whose code a process harness runs, for agents that do not say; "": the newest
    `main`."""
    agent_created_webhook_url: str
    """An http or https URL, which gets a signed POST request for each agent that is created from the
    template; "": none."""
    tool_call_secret: str | None
    """The secret that signs tool calls and webhooks: `whsec_` and Base64, or any other text; "": they are not
    signed. null is a secret that is not shown: members and repeated answers never get it, and one that cannot
    be decrypted must be set again."""
    max_cost_usd_per_day: Decimal | None
    """What each agent without a cap of its own may spend in a UTC day, in US dollars with at most six
    decimals; null: no cap. 0 allows no run."""
    context_tokens: int
    """About how many tokens the first message of a run may have; 0: `runs.context_tokens` of the service."""
    carry_over: CarryOver
    """How much of its earlier runs an agent is told when it wakes."""
    reply: Reply
    """How an agent answers the contact that woke it."""
    content: str
    """Whether traces keep what the model was told and answered, and streams show it live: `full` or `none`;
    "": `tracing.content` of the service."""
    content_days: int | None
    """How many days these texts are kept; null: `retention.tracing_content_days` of the service. 0: as
    long as their trace."""
    environment_secrets: Sequence[str]
    """The names of the secrets that a process harness gets as environment variables, at most 24. Each is a
    secret of the template, else of the organization; a run fails if there is no such secret."""
    unpriced: Unpriced
    """Whether the cap allows calls of models whose price is not known."""


def without_hidden_secret(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body without a null secret, which stands for one that is not shown and changes nothing."""
    return {name: value for name, value in body.items() if name != "tool_call_secret" or value is not None}


def serialize_template(template: Template, *, show_secret: bool) -> TemplateResponse:
    """Return the response; a secret is null unless it is shown."""
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
        "tool_call_secret": _shown_secret(template.tool_call_secret, show_secret=show_secret),
        "max_cost_usd_per_day": template.max_cost_usd_per_day,
        "context_tokens": template.context_tokens,
        "carry_over": template.carry_over,
        "reply": template.reply,
        "content": template.content,
        "content_days": template.content_days,
        "environment_secrets": template.environment_secrets,
        "unpriced": template.unpriced,
    }


def _shown_secret(secret: str | None, *, show_secret: bool) -> str | None:
    """Return the secret, or None if it is not shown; a blank text is no secret."""
    return secret if show_secret or not secret else None


STORED_TEMPLATE = JsonItem(StoredTemplate, columns_of(TemplateResponse, organization="organization_id"))


def with_secret(text: bytes, decrypt: Callable[[str], str | None], *, show_secret: bool) -> bytes:
    """Return the text of a STORED_TEMPLATE with its secret as the response shows it."""

    def write(stored: bytes) -> bytes:
        return to_json(_shown_secret(decrypt(orjson.loads(stored)), show_secret=show_secret))

    return rewrite_marked(text, write, SECRET_MARK)
