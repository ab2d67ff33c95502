"""The worker process of the schema checker: a line of JSON in with kind and values, a line out with errors.

It sets limits on its own time and memory. If a schema exceeds them, the process ends, and with it its output.
"""

import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urldefrag, urljoin

import jsonschema_rs
import orjson

DIALECT = "https://json-schema.org/draft/2020-12/schema"
OUTSIDE = "A $ref may not leave the document."
REFERENCES = frozenset({"$ref", "$dynamicRef"})

MAX_SECONDS = 0.5  # of processor time, for one answer
MAX_BYTES = 512 << 20
MAX_ERRORS = 10
MAX_CHARACTERS = 300  # of one error: the reader limits the length of a line


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the service, which then closes our input
        signal.signal(number, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        answer = orjson.dumps(list(_answer(*orjson.loads(line))))
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


def _answer(kind: str, *values: Any) -> Iterator[str]:
    return find_errors(*values) if kind == "schema" else find_outside_references(*values)


def find_errors(schema: dict[str, Any], *values: Any) -> Iterator[str]:
    """Yield the first few errors of the schema, or else of the values, as `<path>: <error>`."""
    if leaves_the_document(schema):
        yield OUTSIDE
        return
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and dialect.removesuffix("#") != DIALECT:
        yield _line(("$schema",), f'"{dialect}" is not the supported dialect, {DIALECT}')
        return
    try:
        validator = jsonschema_rs.Draft202012Validator(schema, retriever=_refuse)
    except jsonschema_rs.ValidationError as error:
        yield _line(error.instance_path, error.message)
        return
    except ValueError as error:
        yield _line((), str(error))
        return
    for value in values:
        for failure in islice(validator.iter_errors(value), MAX_ERRORS):
            yield _line(failure.instance_path, failure.message)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the document")


def _line(path: Sequence[str | int], message: str) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"${''.join(steps)}: {message}"[:MAX_CHARACTERS]


def find_outside_references(value: Any) -> Iterator[str]:
    if leaves_the_document(value):
        yield OUTSIDE


def leaves_the_document(schema: Any) -> bool:
    """Return whether a reference in this JSON value, schema or not, points outside of it."""
    targets, ids = set(), {""}
    unvisited: list[tuple[Any, str]] = [(schema, "")]
    while unvisited:
        item, base = unvisited.pop()
        if isinstance(item, list):
            unvisited.extend((child, base) for child in item)
        elif isinstance(item, dict):
            if isinstance(item.get("$id"), str):
                base = _resolve(base, item["$id"])
                ids.add(base)
            targets |= {_resolve(base, item[name]) for name in REFERENCES if isinstance(item.get(name), str)}
            unvisited.extend((child, base) for child in item.values())
    return not targets <= ids


def _resolve(base: str, reference: str) -> str:
    """Return the URL of the document that the reference points to."""
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError:
        return reference


if __name__ == "__main__":
    main()
