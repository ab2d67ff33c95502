"""The names in a request that its route does not know.

They are ignored, and the answer names them in `X-Ignored`. With `Prefer: handling=strict` (RFC 7240) unknown
fields and parameters are refused instead.
"""

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from itertools import islice
from types import UnionType
from typing import Any, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from aiohttp import web
from marshmallow import INCLUDE, Schema, ValidationError

from web.errors import Invalid
from web.fields import ListOf, ObjectOf, printable

Value = TypeVar("Value")
Result = TypeVar("Result")
Unknown = dict[str, Collection[str]]  # the paths of unknown names, with the names that are known there

IGNORED_HEADER = "X-Ignored"
PREFER_HEADER = "Prefer"
APPLIED_HEADER = "Preference-Applied"
STRICT = "handling=strict"

MAX_NAMES = 20  # that an answer names
MAX_NAME_BYTES = 64  # of a name in the header; a longer one is cut
MAX_GUESSES = 10  # in an answer; each takes up to a tenth of a millisecond
MAX_GUESSED_CHARACTERS = 40  # of a name for which a similar one is sought; none that we know is longer
SIMILARITY = 0.7  # of two names of which one is taken for the other, from 0 to 1

PREFERENCE = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')
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


class KnownNames(NamedTuple):
    """The names that a route knows."""

    parameters: Collection[str]  # of its query
    shown: Collection[str]  # fields that its answers show, and so may be sent back
    ignored_headers: Collection[str]  # that it does not read; requests are told if they have one

    @classmethod
    def of(cls, query: Schema | None, body: Schema | None, answer: Any, *ignored_headers: str) -> Self:
        parameters = KnownFields.of(query).names if query else ()
        shown = _shown_fields(answer, KnownFields.of(body).names) if body else ()
        return cls(parameters, shown, ignored_headers)


class UnknownNames:
    """The unknown names in one request: collected, or refused if the client prefers that."""

    __slots__ = ("_fields", "_others", "_shown", "is_strict")

    def __init__(self, request: web.Request, known: KnownNames) -> None:
        """Look at the headers and the query. Raise Invalid for an unknown parameter of a strict request."""
        headers = request.headers
        self.is_strict = PREFER_HEADER in headers and _is_strict(headers.getall(PREFER_HEADER))
        self._shown = known.shown
        self._fields: Collection[str] = ()
        query = request.query if request.rel_url.raw_query_string else ()
        unknown = {name: known.parameters for name in query if name not in known.parameters}
        if unknown and self.is_strict:
            raise Invalid(_messages("query parameter", unknown))
        unread = (name for name in known.ignored_headers if name in headers)
        self._others = [*islice(unknown, MAX_NAMES), *unread]

    def convert(self, known: KnownFields, value: Value, convert: Callable[[Value], Result]) -> Result:
        """Return what `convert` makes of a body, or of a list of bodies, and collect its unknown fields.

        Raise Invalid for those of a strict request, together with what else is wrong.
        """
        unknown = known.unknown_in(value, self._shown)
        if not (unknown and self.is_strict):
            self._fields = unknown
            return convert(value)
        messages = _messages("field", unknown)
        try:
            convert(value)
        except ValidationError as error:
            messages = {**error.messages_dict, **messages}
        except Invalid as error:
            messages = {**error.body, **messages}
        raise Invalid(messages)

    def headers(self, *, is_refused: bool) -> dict[str, str]:
        """Return the headers with which the answer says what was ignored, and that `strict` was respected.

        A refusal says what was ignored, too: a misspelt field may be the cause.
        """
        if not (self._fields or self._others or self.is_strict):
            return {}
        names = list(dict.fromkeys([*self._fields, *self._others]))[:MAX_NAMES]
        headers = {IGNORED_HEADER: ", ".join(map(_as_token, names))} if names else {}
        return {**headers, APPLIED_HEADER: STRICT} if self.is_strict and not is_refused else headers


UNKNOWN_NAMES = web.RequestKey("unknown_names", UnknownNames)


def _shown_fields(answer: Any, written: Collection[str]) -> frozenset[str]:
    """Return the fields of an answer if it shows the resource that a body writes, otherwise none."""
    kinds = get_args(answer) if get_origin(answer) in {Union, UnionType} else (answer,)
    shown = frozenset(name for kind in kinds if isinstance(kind, type) for name in get_type_hints(kind))
    return shown if shown & frozenset(written) else frozenset()


def _is_strict(headers: Collection[str]) -> bool:
    """Return whether the first preference about `handling` in these headers is `strict`."""
    for preference in PREFERENCE.findall(",".join(headers)):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "handling":
            return bool(value.strip().strip('"').lower() == "strict")
    return False


def _messages(kind: str, unknown: Unknown) -> dict[str, Any]:
    """Return the messages about the first unknown names, with the most similar known names."""
    messages: dict[str, Any] = {}
    for path, known in islice(unknown.items(), MAX_NAMES):
        message, name = f"Unknown {kind}.", path.rpartition(".")[2]
        if len(messages) < MAX_GUESSES and len(name) <= MAX_GUESSED_CHARACTERS:
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
