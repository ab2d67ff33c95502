"""The tool by which an agent creates agents that work for it."""

from decimal import ROUND_DOWN, Decimal
from functools import partial
from typing import Any

from storage.errors import ReferenceMissing
from storage.model import Agent, Template
from supervisors.errors import UnusableModel
from supervisors.new_agents import build_agent, parent_notification, require_usable_model
from supervisors.policy.explanations import dollars
from supervisors.ports import KnownModels
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import ToolDefinition, ToolInvocation, denied_tools, schema

MAX_NAME = 255
MAX_USD = 1_000_000
MICRO = Decimal("0.000001")  # of a dollar: caps have six decimals

CREATE_AGENT = ToolDefinition(
    name="create_agent",
    description=(
        "Creates an agent that works for you. It sleeps until you send it a message. If you have a daily "
        "budget, its budget is taken from yours for good. Your agents have different names: the same call "
        "again creates no second one."
    ),
    parameters=schema(
        ("name", "instruction"),
        name={"type": "string"},
        instruction={"type": "string", "description": "What it is for: its system prompt."},
        template={"type": "string", "format": "uuid", "description": "Its template, if it is not yours."},
        max_cost_usd_per_day={
            "type": "number",
            "description": "Its budget; without it a tenth of yours, if you have one.",
        },
    ),
)


async def create_agent(models: KnownModels | None, call: ToolInvocation) -> dict[str, Any]:
    """Store a child of the agent, which gets a part of the agent's cap if that has one.

    A child that the agent has already is only returned, so a run that is tried again creates no second one.
    """
    own_template = await call.stores.templates.get_of(call.agent)
    if own_template is None or CREATE_AGENT.name in denied_tools(own_template):
        raise ToolError("not_allowed", "You may not create agents: your template does not allow it.")
    instruction, asked = call.arguments.written("instruction"), _asked(call)
    template = await _named_template(call) or own_template
    child = _build(call, instruction, asked, own_template, template)
    await _require_usable_model(models, call, child, own_template, template)
    notice, share = parent_notification(child), partial(_share, asked)
    try:
        stored = await call.stores.agents.insert_child(child, notice, share, actor=call.actor)
    except ReferenceMissing as error:
        raise ToolError("not_found", f"The {error.field} was deleted.") from error
    if stored.agent.id != child.id and stored.agent.system_prompt != instruction:
        raise ToolError(
            "name_taken",
            f"You have an agent {child.name} with another instruction. Give the new one another name.",
            agent=str(stored.agent.id),
        )
    return _serialize(stored.agent) | {"your_max_cost_usd_per_day": _number(stored.parent_cap)}


def _asked(call: ToolInvocation) -> Decimal | None:
    asked = call.arguments.number("max_cost_usd_per_day", MAX_USD)
    return None if asked is None else Decimal(repr(asked)).quantize(MICRO)


def _share(asked: Decimal | None, cap: Decimal, left: Decimal) -> Decimal:
    """Return how much of the parent's cap becomes the child's. Raise ToolError if that is too much.

    What the parent has spent today it cannot give: the child could spend it a second time.
    """
    share = (cap / 10).quantize(MICRO, ROUND_DOWN) if asked is None else asked
    if share > left:
        message = f"You have {dollars(left)} of {dollars(cap)} USD left today, so you can give at most that."
        raise ToolError("budget_exceeded", message, parameter="max_cost_usd_per_day")
    return share


async def _named_template(call: ToolInvocation) -> Template | None:
    if not call.arguments.text("template", ""):
        return None
    template_id = call.arguments.id("template")
    template = await call.stores.templates.get(template_id)
    if template is None or template.organization_id != call.agent.organization_id:
        raise ToolError("not_found", f"There is no template {template_id}.", parameter="template")
    return template


async def _require_usable_model(
    models: KnownModels | None,
    call: ToolInvocation,
    child: Agent,
    own_template: Template,
    template: Template,
) -> None:
    """Raise ToolError if the child could make no model call. If its parent has a cap, it will have one."""
    parent, cap = call.agent, child.max_cost_usd_per_day
    if cap is None and (parent.max_cost_usd_per_day, own_template.max_cost_usd_per_day) != (None, None):
        cap = Decimal(0)
    fields = {"model": child.model, "max_cost_usd_per_day": cap, "unpriced": child.unpriced}
    try:
        await require_usable_model(models, call.stores, parent.organization_id, fields, template, call.now)
    except UnusableModel as error:
        raise ToolError("model_refused", str(error), model=child.model) from error


def _build(
    call: ToolInvocation, instruction: str, cap: Decimal | None, own_template: Template, template: Template
) -> Agent:
    """Return the child. It has the parent's adapters, time zone and language, and the settings of `template`.

    If that names no model, the child has the parent's, under the rule that the parent has about its price.
    """
    parent, arguments = call.agent, call.arguments
    name = arguments.optional_line("name", MAX_NAME) or arguments.line("name")
    settings = {
        "template_id": template.id,
        "parent_id": parent.id,
        "adapters": parent.adapters,
        "tags": (),
        "name": " ".join(name.split()),
        "model": template.default_model or parent.model,
        "timezone": parent.timezone,
        "system_prompt": instruction,
        "email_alias": None,
        "max_turns": 0,
        "max_sleep_hours": None,
        "harness_git_ref": None,
        "reasoning_effort": "",
        "debounce_window_seconds": None,
        "call_voice_id": "",
        "purpose": parent.purpose,
        "max_cost_usd_per_day": cap,
        "language": parent.language,
        "unpriced": None if template.default_model else parent.unpriced or own_template.unpriced,
    }
    return build_agent(settings, parent.organization_id, template, parent, call.now)


def _serialize(child: Agent) -> dict[str, Any]:
    return {
        "id": str(child.id),
        "name": child.name,
        "template": str(child.template_id) if child.template_id else None,
        "model": child.model,
        "max_cost_usd_per_day": _number(child.max_cost_usd_per_day),
    }


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
