"""How large the attacks are: short in `make test-slow` and by default, full with `--full`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of all attacks. Bars on time are multiplied by `patience`, as test machines are busy."""

    list_rows: int  # of 1 MB each
    list_callers: int
    stalled_readers: int
    spans: int
    tags: int
    log_ins: int
    sign_ups: int
    anonymous_requests: int
    connections: int
    chunked_bytes: int
    slow_schemas: int
    flood: int
    patience: float
    max_wait_seconds: float  # attacks that wait longer for a time limit are left out


SHORT = Sizes(
    list_rows=100,
    list_callers=16,
    stalled_readers=10,
    spans=10_000,
    tags=4_000,
    log_ins=60,
    sign_ups=8,
    anonymous_requests=0,
    connections=200,
    chunked_bytes=64 << 20,
    slow_schemas=4,
    flood=3_000,
    patience=10,
    max_wait_seconds=20,
)
FULL = Sizes(
    list_rows=1_000,
    list_callers=50,
    stalled_readers=20,
    spans=50_000,
    tags=30_000,
    log_ins=150,
    sign_ups=80,
    anonymous_requests=1_500,
    connections=1_500,
    chunked_bytes=320 << 20,
    slow_schemas=20,
    flood=4_000,
    patience=1,
    max_wait_seconds=60,
)
