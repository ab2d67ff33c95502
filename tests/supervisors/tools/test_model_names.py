"""Names of adapter tools for models."""

import re
from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.toolbox.agent_tools import ListedTool
from supervisors.tools.model_names import names_for_models, slug

TAKEN = frozenset({"sleep", "send_message"})
VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def listed_tool(id: UUID, name: str, adapter_name: str = "Mail", position: int = 1) -> ListedTool:  # noqa: A002
    return ListedTool(id, adapter_name, position, name)


def number(value: int) -> UUID:
    return UUID(int=value)


# Few letters, so that names clash; also some forbidden characters and overlong names.
NAMES = st.one_of(
    st.text("ab_ é", max_size=4),
    st.sampled_from(["sleep", "Mail_sleep", "Mail_a", "Mail_a_2", "a" * 64, "a" * 255, "天气", ""]),
    st.text(max_size=20),
)
TOOLS = st.lists(
    st.builds(
        listed_tool,
        id=st.integers(1, 10**6).map(number),
        name=NAMES,
        adapter_name=st.one_of(st.sampled_from(["Mail", "Fax", "m" * 255]), st.text(max_size=5)),
        position=st.integers(1, 3),
    ),
    unique_by=lambda tool: tool.id,
    max_size=12,
)


@given(TOOLS)
def test_every_tool_has_a_unique_valid_name(tools: list[ListedTool]) -> None:
    by_name = names_for_models(tools, TAKEN)
    assert sorted(by_name.values(), key=id) == sorted(tools, key=id)
    assert all(VALID.fullmatch(name) for name in by_name)
    assert not TAKEN & by_name.keys()


@given(TOOLS, st.randoms())
def test_names_do_not_depend_on_the_order_of_rows(tools: list[ListedTool], random: Random) -> None:
    shuffled = list(tools)
    random.shuffle(shuffled)
    assert list(names_for_models(shuffled, TAKEN).items()) == list(names_for_models(tools, TAKEN).items())


@given(TOOLS, NAMES)
def test_tool_added_last_changes_no_other_name(tools: list[ListedTool], name: str) -> None:
    before = names_for_models(tools, TAKEN)
    after = names_for_models([*tools, listed_tool(number(10**7), name, position=3)], TAKEN)
    assert list(after.items())[: len(tools)] == list(before.items())


@given(TOOLS)
def test_tool_with_a_unique_name_changes_no_other_name(tools: list[ListedTool]) -> None:
    before = names_for_models(tools, TAKEN)
    after = names_for_models([listed_tool(number(10**7), "zebra", "Zoo", position=0), *tools], TAKEN)
    assert {name: tool for name, tool in after.items() if name != "zebra"} == before


def in_order(*tools: tuple[str, str]) -> Sequence[ListedTool]:
    """Return tools of these names and adapters, the oldest first."""
    return [listed_tool(number(index), name, adapter) for index, (name, adapter) in enumerate(tools, 1)]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([("look_up", "CRM"), ("Book a table", "Inn")], ["look_up", "Book_a_table"]),
        ([("sleep", "Bed & Breakfast")], ["Bed_Breakfast_sleep"]),
        ([("find", "CRM"), ("find", "Wiki")], ["find", "Wiki_find"]),
        ([("find", "CRM"), ("find!", "CRM"), ("find?", "CRM")], ["find", "CRM_find", "CRM_find_2"]),
        ([("a" * 65, "b" * 40), ("a" * 64, "b" * 40)], ["a" * 64, "b" * 31 + "_" + "a" * 32]),
    ],
)
def test_first_tool_of_a_name_keeps_it(tools: list[tuple[str, str]], expected: list[str]) -> None:
    assert list(names_for_models(in_order(*tools), TAKEN)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look-up_2", "look-up_2"),
        ("_private", "_private"),
        (" Send   e-mail. ", "Send_e-mail"),
        ("Größe prüfen", "Groe_prufen"),
        ("天气", "tool"),
        ("", "tool"),
        ("a\0b", "a_b"),
    ],
)
def test_slug_keeps_allowed_characters(text: str, expected: str) -> None:
    assert slug(text) == expected
