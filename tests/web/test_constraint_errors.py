"""Failed constraints as messages about fields."""

from uuid import UUID

import pytest

from storage.errors import AnsweredBefore, NotUnique, ReferenceMissing
from web.constraint_errors import refusal, refusing_constraint_errors
from web.errors import Invalid

AGENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def test_clash_names_fields_that_must_be_unique() -> None:
    message = "The fields adapter, name must make a unique set."
    assert refusal(NotUnique("adapter", "name"), {}).body == {"non_field_errors": [message]}


def test_missing_reference_names_field_and_id() -> None:
    refused = refusal(ReferenceMissing("agent"), {"agent_id": AGENT})
    assert refused.body == {"agent": [f'Invalid pk "{AGENT}" - object does not exist.']}


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(AnsweredBefore):
        refusal(AnsweredBefore(), {})


def test_block_that_violates_constraint_is_refused() -> None:
    with pytest.raises(Invalid), refusing_constraint_errors({}):
        raise NotUnique("name")
    with pytest.raises(AnsweredBefore), refusing_constraint_errors({}):
        raise AnsweredBefore
