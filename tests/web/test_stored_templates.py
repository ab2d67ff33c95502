"""PostgreSQL writes templates with the bytes that Python writes; their secrets are written for the caller."""

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.agents.templates import Templates
from storage.encryption import SecretCipher
from storage.ids import new_id
from storage.model import Content, Template
from storage.postgres.pool import Pool
from tests.storage.factories import stored_agent, template
from tests.web.test_listed_items import AMOUNTS, EVERY_CHARACTER, MOMENTS, kind_of, texts
from web.json import to_json
from web.schemas.templates import STORED_TEMPLATE, serialize_template, with_secret

CIPHERS = (SecretCipher(), SecretCipher([b"k" * 32]))
MOVE = "UPDATE template SET tool_call_secret = (SELECT tool_call_secret FROM template WHERE id = $1)"

int32 = st.integers(0, 2**31 - 1)
special_kinds = {
    "tool_call_secret": texts,
    "content": st.sampled_from(["", *Content]),
    "content_days": st.none() | int32,
}
columns = st.fixed_dictionaries(
    {
        name: int32 if hint is int else kind_of(hint).values
        for name, hint in get_type_hints(Template).items()
        if name not in {"id", "organization_id", *special_kinds}
    }
    | special_kinds
)


async def new_template(pool: Pool, **changes: Any) -> Template:
    scout = await stored_agent(pool)
    return replace(template(scout.organization_id), id=new_id(), **changes)


async def require_same_bytes(templates: Templates, stored: Template) -> None:
    await templates.insert(stored)
    reads = templates.get.as_json(STORED_TEMPLATE)
    row = await reads.get_short(stored.id)
    if row is not None and not row.text:  # it is long
        row = await reads.get_alone(stored.id)
    read = await templates.get(stored.id)
    assert row is not None
    assert read is not None
    decrypt = partial(templates.decrypt_secret, stored.id)
    for show_secret in (True, False):
        written = to_json(serialize_template(read, show_secret=show_secret))
        assert with_secret(row.text, decrypt, show_secret=show_secret) == written


@pytest.mark.parametrize("cipher", CIPHERS, ids=["in clear", "encrypted"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(columns=columns)
async def test_template_has_the_bytes_of_python(
    pool: Pool, cipher: SecretCipher, columns: dict[str, Any]
) -> None:
    lists = {name: tuple(value) for name, value in columns.items() if isinstance(value, list)}
    await require_same_bytes(Templates(pool, cipher), await new_template(pool, **{**columns, **lists}))


@pytest.mark.parametrize("cipher", CIPHERS, ids=["in clear", "encrypted"])
async def test_special_values_of_templates_are_written_as_by_python(pool: Pool, cipher: SecretCipher) -> None:
    special: dict[str, tuple[Any, ...]] = {
        "tool_call_secret": ("", "s3cret", "\x02", '"\x01', "hostsvc:1:x", EVERY_CHARACTER),
        "system_prompt": (EVERY_CHARACTER, "x" * 40_000),
        "created_at": MOMENTS,
        "max_cost_usd_per_day": (*AMOUNTS, Decimal("0.1"), None),
        "environment_secrets": ((), ('"', "b")),
        "content_days": (None, 0),
    }
    for column, values in special.items():
        for value in values:
            await require_same_bytes(Templates(pool, cipher), await new_template(pool, **{column: value}))


async def test_secret_of_another_template_is_not_shown(pool: Pool) -> None:
    templates = Templates(pool, CIPHERS[1])
    first, second = [await new_template(pool, tool_call_secret=text) for text in ("first", "second")]
    await templates.insert(first)
    await templates.insert(second)
    await pool.execute(MOVE, first.id)
    row = await templates.get.as_json(STORED_TEMPLATE).get_short(second.id)
    assert row is not None
    decrypt = partial(templates.decrypt_secret, second.id)
    assert b'"tool_call_secret":null,' in with_secret(row.text, decrypt, show_secret=True)
