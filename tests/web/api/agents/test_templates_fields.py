"""Body, deletion query and response of templates."""

from storage.model import ReasoningEffort, Template
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    ORGANIZATION_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.agents.templates import TemplateBody, TemplateDeletionQuery, serialize_template


def test_template_needs_only_a_name() -> None:
    assert refuse(TemplateBody(), {}) == {"name": REQUIRED}
    checked = accept(TemplateBody(), {"name": "Clerk"})
    assert (checked["debounce_window_seconds"], checked["max_cost_usd_per_day"]) == (0, None)


def test_reasoning_effort_may_not_be_blank() -> None:
    body = {"default_reasoning_effort": ""}
    message = '"" is not a valid choice.'
    assert refuse(TemplateBody(), body, partial=True) == {"default_reasoning_effort": [message]}


def test_deletion_does_not_detach_by_default() -> None:
    assert accept(TemplateDeletionQuery(), {}) == {"detach": False}


def test_response_has_every_field() -> None:
    template = Template(
        id=ID,
        organization_id=ORGANIZATION_ID,
        name="Clerk",
        description="",
        system_prompt="Be kind.",
        default_model="m",
        default_reasoning_effort=ReasoningEffort.HIGH,
        thinking_max_tokens=0,
        max_turns=7,
        debounce_window_seconds=60,
        harness_git_ref="v1",
        agent_created_webhook_url="",
        tool_call_secret="s3cret",
        created_at=NOON,
    )
    assert serve(serialize_template(template, show_secret=True)) == {
        "id": ID_TEXT,
        "organization": ORGANIZATION_ID_TEXT,
        "name": "Clerk",
        "created_at": NOON_TEXT,
        "description": "",
        "system_prompt": "Be kind.",
        "default_model": "m",
        "default_reasoning_effort": "high",
        "thinking_max_tokens": 0,
        "max_turns": 7,
        "debounce_window_seconds": 60,
        "harness_git_ref": "v1",
        "agent_created_webhook_url": "",
        "tool_call_secret": "s3cret",
        "max_cost_usd_per_day": None,
        "context_tokens": 0,
        "carry_over": "journal",
        "reply": "tool",
        "content": "",
        "content_days": None,
        "environment_secrets": [],
        "unpriced": "refuse",
    }
