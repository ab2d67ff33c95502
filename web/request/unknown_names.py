"""The names in a request that its route does not know.

They are ignored, and the answer names them in `X-Ignored`. With `Prefer: handling=strict` (RFC 7240) unknown
fields and parameters are refused instead.
"""

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from aiohttp import web
from marshmallow import INCLUDE, Schema, ValidationError

from web.errors import Invalid
from web.fields import ListOf, ObjectOf, printable

Value = TypeVar("Value")
Result = TypeVar("Result")

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


class _Unknown(NamedTuple):
    """An unknown name, and those that are known in its place."""

    name: str
    known: Collection[str]


class KnownFields:
    """The names of the fields that a body may have, also of the objects inside it."""

    __slots__ = ("_inside", "_takes_all", "names")

    def __init__(self, schema: Schema) -> None:
        known = {field.data_key or name: field for name, field in schema.load_fields.items()}
        inner = {name: field.inner if isinstance(field, ListOf) else field for name, field in known.items()}
        self.names = frozenset(known)
        self._takes_all = schema.unknown == INCLUDE
        self._inside = {
            name: KnownFields(field.schema) for name, field in inner.items() if isinstance(field, ObjectOf)
        }

    def are_all(self, value: Any) -> bool:
        """Return quickly whether a body has only known names; False if that takes a closer look."""
        return not self._inside and type(value) is dict and value.keys() <= self.names

    def find_unknown(self, value: Any, shown: Collection[str]) -> dict[str, _Unknown]:
        """Return the first unknown names in a body, or in a list of bodies; those in `shown` do not count.

        A name in an object inside a body has a path without indexes, such as `attachments.colour`.
        """
        found: dict[str, _Unknown] = {}
        if not self._takes_all:
            self._collect(value, shown, "", found)
        return found

    def _collect(self, value: Any, shown: Collection[str], path: str, found: dict[str, _Unknown]) -> None:
        for values in value if isinstance(value, list) else (value,):
            if len(found) >= MAX_NAMES:
                return
            if not isinstance(values, dict):
                continue
            if not values.keys() <= self.names:
                self._collect_names(values, shown, path, found)
            for name, inside in self._inside.items():
                if name in values:
                    inside._collect(values[name], (), f"{path}{name}.", found)

    def _collect_names(
        self, names: Collection[str], shown: Collection[str], path: str, found: dict[str, _Unknown]
    ) -> None:
        for name in names:
            if len(found) >= MAX_NAMES:
                return
            if name not in self.names and name not in shown:
                found.setdefault(path + name, _Unknown(name, self.names))


class KnownNames:
    """The names that a route knows: parameters of its query, and fields that its answers show."""

    __slots__ = ("ignored_headers", "parameters", "shown")

    def __init__(
        self, query: Schema | None, body: Schema | None, answer: Any, ignored_headers: Collection[str]
    ) -> None:
        """The route does not read the `ignored_headers`; requests are told if they have one of them."""
        self.parameters = KnownFields(query).names if query else frozenset[str]()
        self.shown = _shown_fields(answer, KnownFields(body).names) if body else frozenset[str]()
        self.ignored_headers = ignored_headers


class UnknownNames:
    """The unknown names in one request: collected, or refused if the client prefers that."""

    __slots__ = ("_fields", "_others", "_shown", "is_strict")

    def __init__(self, request: web.Request, known: KnownNames) -> None:
        """Look at the headers and the query. Raise Invalid for an unknown parameter of a strict request."""
        headers = request.headers
        self.is_strict = PREFER_HEADER in headers and _is_strict(headers.getall(PREFER_HEADER))
        self._shown = known.shown
        self._fields: Collection[str] = ()
        self._others: Collection[str] = ()
        if request.rel_url.raw_query_string:
            self._look_at_query(request, known.parameters)
        for name in known.ignored_headers:
            if name in headers:
                self._others = [*self._others, name]

    def _look_at_query(self, request: web.Request, known: Collection[str]) -> None:
        unknown = {name: _Unknown(name, known) for name in request.query if name not in known}
        if unknown and self.is_strict:
            raise Invalid(_messages("query parameter", unknown))
        self._others = list(unknown)[:MAX_NAMES]

    def convert(self, known: KnownFields, value: Value, convert: Callable[[Value], Result]) -> Result:
        """Return what `convert` makes of a body, or of a list of bodies, with these known fields.

        Raise Invalid for an unknown field of a strict request, together with what else is wrong.
        """
        if known.are_all(value):
            return convert(value)
        unknown = known.find_unknown(value, self._shown)
        if not unknown:
            return convert(value)
        if not self.is_strict:
            self._fields = unknown.keys()
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


def _messages(kind: str, unknown: Mapping[str, _Unknown]) -> dict[str, Any]:
    """Return the messages about the first unknown names, with the most similar known names."""
    messages: dict[str, Any] = {}
    for path, (name, known) in list(unknown.items())[:MAX_NAMES]:
        message = f"Unknown {kind}."
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
