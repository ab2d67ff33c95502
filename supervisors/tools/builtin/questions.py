"""The question tool: an agent asks a person, and is woken by the answer, which may take days."""

from typing import Any

from storage.ids import new_id
from storage.parked_calls import CallKind
from supervisors.json_schema.checker import SchemaChecker
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.listing import named_resource
from supervisors.tools.parking import park
from supervisors.tools.tool import ToolDefinition, ToolInvocation, schema

MAX_QUESTION = 10_000  # characters

ASK_PERSON = ToolDefinition(
    name="ask_person",
    description=(
        "Asks a person of your organization. The answer may take days, and wakes you: go on with other "
        "things, or sleep."
    ),
    parameters=schema(
        ("question",),
        question={"type": "string", "description": "What you want to know, and why."},
        schema={"type": "object", "description": "JSON Schema of the answer; left out: a text."},
        contact={"type": "string", "format": "uuid", "description": "The contact whom you mean."},
    ),
)


class Questions:
    """Asks the questions of agents."""

    def __init__(self, checker: SchemaChecker) -> None:
        self._checker = checker

    async def ask_person(self, call: ToolInvocation) -> dict[str, Any]:
        """Park the question until a person answers it."""
        question, given = call.arguments.written("question"), call.arguments.given
        if len(question) > MAX_QUESTION:
            raise ToolError("invalid", f"question takes at most {MAX_QUESTION} characters.")
        answer_schema = {"type": "string"} if given.get("schema") is None else given["schema"]
        await self._require_schema(call, answer_schema)
        contact = None
        if given.get("contact") is not None:
            contact = await named_resource(call, "contact", "contact", call.stores.contacts.get)
        return await park(
            call,
            call.span_id or new_id(),
            CallKind.QUESTION,
            ASK_PERSON.name,
            {"question": question, "schema": answer_schema, "contact": contact and str(contact.id)},
            question=question,
            answer_schema=answer_schema,
            contact_id=contact.id if contact else None,
        )

    async def _require_schema(self, call: ToolInvocation, answer_schema: Any) -> None:
        if not isinstance(answer_schema, dict):
            raise ToolError("invalid", "schema takes a JSON Schema, which is an object.", parameter="schema")
        owner, place = call.agent.organization_id, "schema"
        errors = await self._checker.find_outside_references(owner, place, answer_schema)
        errors = errors or await self._checker.find_schema_errors(owner, place, answer_schema)
        if errors:
            raise ToolError("invalid", f"schema: {'; '.join(errors)}", parameter="schema", errors=errors)
