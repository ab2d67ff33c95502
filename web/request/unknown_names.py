"""The names in a request that its route does not know.

They are ignored, and the answer names them in `X-Ignored`. With `Prefer: handling=strict` (RFC 7240) unknown
fields and parameters are refused instead.
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from itertools import islice
from types import UnionType
from typing import Any, NamedTuple, Self, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from aiohttp import web
from marshmallow import INCLUDE, Schema

from web.errors import APPLIED_HEADER, Invalid
from web.fields import ListOf, ObjectOf, printable
from web.observability.requests import HEADERS

Unknown = dict[str, Collection[str]]  # the paths of unknown names, with the names that are known there

IGNORED_HEADER = "X-Ignored"
PREFER_HEADER = "Prefer"
STRICT = "handling=strict"

MAX_NAMES = 20  # that an answer names
MAX_NAME_BYTES = 64  # of a name in the header; a longer one is cut
MAX_GUESSED_CHARACTERS = 40  # of a name for which a similar one is sought; none that we know is longer
SIMILARITY = 0.7  # of two names of which one is taken for the other, from 0 to 1

CUT_ESCAPE = re.compile(r"%[0-9A-F]?$")


class KnownFields(NamedTuple):
    """The names of the fields that a body may have, also of the objects inside it."""

    names: frozenset[str]
    inside: Mapping[str, "KnownFields"]
    takes_all: bool

    @classmethod
    def of(cls, schema: Schema) -> Self:
        known = {field.data_key or name: field for name, field in schema.load_fields.items()}
        inner = {name: field.inner if isinstance(field, ListOf) else field for name, field in known.items()}
        inside = {name: cls.of(field.schema) for name, field in inner.items() if isinstance(field, ObjectOf)}
        return cls(frozenset(known), inside, schema.unknown == INCLUDE)

    def unknown_in(self, value: Any, shown: Collection[str] = (), path: str = "") -> Unknown:
        """Return the first unknown names in a body, or in a list of bodies; those in `shown` do not count.

        A name in an object inside a body has a path without indexes, such as `attachments.colour`.
        """
        found: Unknown = {}
        for values in value if isinstance(value, list) else (value,):
            if self.takes_all or len(found) >= MAX_NAMES:
                break
            if not isinstance(values, dict):
                continue
            if not values.keys() <= self.names:
                new = (name for name in values if name not in self.names and name not in shown)
                found |= {path + name: self.names for name in islice(new, MAX_NAMES)}
            for name, inside in self.inside.items():
                if name in values:
                    found |= inside.unknown_in(values[name], (), f"{path}{name}.")
        return found


def note_unknown_names(request: web.Request, known: Collection[str], *ignored_headers: str) -> None:
    """Name in the answer the parameters that are not `known`, and the headers that have no effect.

    Raise Invalid for an unknown parameter of a strict request.
    """
    unknown = {name: known for name in request.query if name not in known}
    if is_strict(request):
        if unknown:
            raise Invalid(_messages("query parameter", unknown))
        request[HEADERS][APPLIED_HEADER] = STRICT
    if unknown or ignored_headers:
        _note(request, [*unknown, *ignored_headers])


def note_unknown_fields(request: web.Request, known: KnownFields, value: Any, shown: Collection[str]) -> None:
    """Name in the answer the fields of a parsed body, or of a list of them, that the route does not know.

    Those in `shown` may be sent back. Raise Invalid for those of a strict request.
    """
    unknown = known.unknown_in(value, shown)
    if unknown and is_strict(request):
        raise Invalid(_messages("field", unknown))
    if unknown:
        _note(request, unknown)


def is_strict(request: web.Request) -> bool:
    """Return whether the first preference about `handling` in the headers of a request is `strict`."""
    for preference in ",".join(request.headers.getall(PREFER_HEADER, ())).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "handling":
            return value.strip().strip('"').lower() == "strict"
    return False


def _note(request: web.Request, unknown: Collection[str]) -> None:
    """Name these names in the answer, before those that are named there already.

    A refusal names them, too: a misspelt field may be the cause.
    """
    headers = request[HEADERS]
    noted = headers.get(IGNORED_HEADER)
    tokens = [*map(_as_token, islice(unknown, MAX_NAMES)), *(noted.split(", ") if noted else ())]
    headers[IGNORED_HEADER] = ", ".join(list(dict.fromkeys(tokens))[:MAX_NAMES])


def shown_fields(answer: Any, known: KnownFields) -> frozenset[str]:
    """Return the fields of an answer if it shows the resource that a body writes, otherwise none."""
    kinds = get_args(answer) if get_origin(answer) in {Union, UnionType} else (answer,)
    shown = frozenset(name for kind in kinds if isinstance(kind, type) for name in get_type_hints(kind))
    return shown if shown & known.names else frozenset()


def _messages(kind: str, unknown: Unknown) -> dict[str, Any]:
    """Return the messages about the first unknown names, with the most similar known names."""
    messages: dict[str, Any] = {}
    for path, known in islice(unknown.items(), MAX_NAMES):
        message, name = f"Unknown {kind}.", path.rpartition(".")[2]
        if len(name) <= MAX_GUESSED_CHARACTERS:
            similar = get_close_matches(name.lower(), known, n=1, cutoff=SIMILARITY)
            message += "".join(f' Did you mean "{each}"?' for each in similar)
        messages[printable(path)] = [message]
    return messages


def _as_token(name: str) -> str:
    """Return the name as it may stand in a header: letters, digits, `._-`, and escapes for all else."""
    token = quote(name[:MAX_NAME_BYTES], safe="", errors="replace").replace("~", "%7E")
    if len(token) > MAX_NAME_BYTES or len(name) > MAX_NAME_BYTES:
        token = CUT_ESCAPE.sub("", token[:MAX_NAME_BYTES]) + "~"
    return token or '""'
