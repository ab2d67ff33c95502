"""The format of a run's final answer: JSON that fits the JSON Schema of the template."""

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from supervisors.engine.run import RunError
from supervisors.errors import ChecksPending
from supervisors.json_schema.checker import SchemaChecker

REPAIR = (
    "Your final answer does not fit the JSON Schema that it must fit: {} Answer once more, without a tool "
    "call: only the corrected JSON, whole."
)
UNFIT = "The final answer does not fit the template's response_format: {}"

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


@dataclass(slots=True)
class AnswerFormat:
    """Checks the final answers of one run."""

    organization_id: UUID
    schema: dict[str, Any]
    checker: SchemaChecker
    max_characters: int
    _was_repaired: bool = False

    async def check(self, text: str, *, may_repair: bool) -> tuple[str, str]:
        """Return the answer as JSON and "", or else "" and the message that asks the model to repair it.

        Raise RunError if it was asked before, or may not be.
        """
        if fenced := _FENCED.fullmatch(text):
            text = fenced[1]
        problem = await self._problem(text)
        if not problem:
            return text.strip(), ""
        if self._was_repaired or not may_repair:
            raise RunError(UNFIT.format(problem))
        self._was_repaired = True
        return "", REPAIR.format(problem)

    async def _problem(self, text: str) -> str:
        if not text.strip():
            return "it is empty."
        if len(text) > self.max_characters:
            return f"it has more than {self.max_characters} characters."
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return f"it is not JSON ({error})."
        try:
            errors = await self.checker.find_errors(self.organization_id, "this schema", self.schema, value)
        except ChecksPending as error:
            raise RunError(f"The final answer was not checked: {error}.") from error
        return " ".join(errors)
