"""The fast copy of a frozen value: the same as `dataclasses.replace`, its plain reference."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.agent_facts import AgentFacts, AgentState
from storage.fast_replace import replace
from tests.supervisors.agent_facts import facts, running, state


@dataclass(frozen=True)
class WithoutSlots:
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Checked:
    first: int
    second: int

    def __post_init__(self) -> None:
        raise AssertionError("a copy would not be checked")


@dataclass(frozen=True, slots=True)
class Single:
    only: int


def some_fields(model: type[Any]) -> st.SearchStrategy[dict[str, int]]:
    names = [field.name for field in dataclasses.fields(model)]
    return st.dictionaries(st.sampled_from(names), st.integers())


@given(st.sampled_from([state(), running(version=3)]), some_fields(AgentState))
def test_copy_of_a_state_equals_that_of_dataclasses(before: AgentState, changes: dict[str, Any]) -> None:
    copy, plain = replace(before, **changes), dataclasses.replace(before, **changes)

    assert dataclasses.asdict(copy) == dataclasses.asdict(plain)
    assert (copy, copy.version, type(copy)) == (plain, plain.version, AgentState)


@given(some_fields(AgentFacts))
def test_copy_of_facts_leaves_the_original_as_it_is(changes: dict[str, Any]) -> None:
    before, same = facts(running()), facts(running())

    assert repr(replace(before, **changes)) == repr(dataclasses.replace(before, **changes))
    assert before == same


def test_copy_stays_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(state(), failures=1).failures = 2  # type: ignore[misc]


def test_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="AgentState has no field 'naem'"):
        replace(state(), naem="Scout")  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [WithoutSlots(1, 2), Single(1)], ids=lambda value: type(value).__name__)
def test_class_that_needs_more_than_its_slots_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="must"):
        replace(value)


def test_class_that_checks_its_fields_is_refused() -> None:
    with pytest.raises(TypeError, match="__post_init__"):
        replace(object.__new__(Checked))
