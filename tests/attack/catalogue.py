"""All attacks, in the order in which they are made: those that leave addresses locked out come last."""

from tests.attack.answers import injected_headers, revealing_answers
from tests.attack.big_answers import big_lists, long_trace, many_tags, stalled_readers
from tests.attack.bodies import (
    compressed_bombs,
    costly_texts,
    endless_chunks,
    hostile_json,
    slow_schemas,
    tiny_chunks,
)
from tests.attack.connections import half_open_connections, slow_heads
from tests.attack.findings import Attack
from tests.attack.floods import notification_flood
from tests.attack.forgery import forged_tokens, mass_assignment
from tests.attack.framing import endless_garbage, endless_heads, odd_methods, odd_paths, smuggled_requests
from tests.attack.logins import log_in_flood, rate_limits, sign_up_flood
from tests.attack.models import hostile_models
from tests.attack.tenancy import foreign_ids

ATTACKS = (
    Attack(revealing_answers),
    Attack(injected_headers),
    Attack(smuggled_requests),
    Attack(endless_heads),
    Attack(endless_garbage),
    Attack(odd_methods),
    Attack(odd_paths),
    Attack(forged_tokens),
    Attack(mass_assignment),
    Attack(foreign_ids),
    Attack(hostile_json),
    Attack(costly_texts),
    Attack(compressed_bombs),
    Attack(endless_chunks, is_sized=True),
    Attack(tiny_chunks),
    Attack(hostile_models),
    Attack(slow_schemas, is_sized=True),
    Attack(slow_heads, waits_seconds=20),
    Attack(half_open_connections, is_sized=True),
    Attack(long_trace, is_sized=True),
    Attack(many_tags, is_sized=True),
    Attack(big_lists, is_sized=True),
    Attack(stalled_readers, waits_seconds=40),
    Attack(notification_flood, is_sized=True),
    Attack(log_in_flood, is_sized=True),
    Attack(rate_limits),
    Attack(sign_up_flood, is_sized=True),
)
