"""The process behind `json_schema`: a schema (and a value) in, what is wrong with them out, a line each.

It sets limits on itself that end it when a schema asks for too much; whoever reads its answers sees them end.
"""

import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

MOST_SECONDS = 0.5  # of the processor's time, for one answer
MOST_BYTES = 512 << 20
MOST_ERRORS = 10
MOST_CHARACTERS = 300  # of one error: the reader of a line has a limit


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the service, which closes this one's input
        signal.signal(number, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        answer = orjson.dumps(list(find_errors(*orjson.loads(line))))
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


def find_errors(schema: dict[str, Any], *values: Any) -> Iterator[str]:
    """What is wrong with the schema, else with the values: `<path>: <what>`, the first few."""
    try:
        validator = jsonschema_rs.Draft202012Validator(schema, retriever=_refuse)
    except jsonschema_rs.ValidationError as error:
        yield _line(error.instance_path, error.message)
        return
    except ValueError as error:
        yield _line((), str(error))
        return
    for value in values:
        for found in islice(validator.iter_errors(value), MOST_ERRORS):
            yield _line(found.instance_path, found.message)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the document")


def _line(path: Sequence[str | int], message: str) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"${''.join(steps)}: {message}"[:MOST_CHARACTERS]


if __name__ == "__main__":
    main()
