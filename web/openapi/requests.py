"""The description of request bodies and queries, from the schemas that check them.

It covers the usual way to write a value; the document's introduction names the others, such as digits for an
integer.
"""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from marshmallow import Schema, fields, missing, validate

from storage.channels.addresses import EMAIL_TEXT
from web.fields import (
    LOCAL_PART_TEXT,
    MAX_MONEY,
    Choice,
    DayOrDatetime,
    Email,
    JsonObject,
    Line,
    ListOf,
    LocalPart,
    Money,
    OneOf,
    PhoneFilter,
    Region,
    Text,
    Timezone,
    Url,
    WordOrObject,
)
from web.openapi.schemas import (
    Components,
    Json,
    attribute_docstrings,
    description_of,
    enum_reference,
    nullable,
)
from web.request.files import MAX_FILES, Files
from web.secret_fields import HEADER_TEXT, MAX_HEADERS, NAME_TEXT, SecretHeaders, SecretName

URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
BINARY: Json = {"type": "string", "format": "binary"}
NOT_BLANK = r"[^\s\x1c-\x1f\x85]"  # str.strip removes more than \s matches
ANY_VALUE_BUT_NULL = ["object", "array", "string", "number", "boolean"]
INSTANT: Json = {"type": "string", "format": "date-time"}
PLAIN: tuple[tuple[type[fields.Field[Any]], Json], ...] = (
    (fields.Integer, {"type": "integer"}),
    (fields.Float, {"type": "number"}),
    (fields.Decimal, {"type": "number"}),
    (fields.Boolean, {"type": "boolean"}),
    (fields.UUID, {"type": "string", "format": "uuid"}),
    (DayOrDatetime, {"anyOf": [INSTANT, {"type": "string", "format": "date"}]}),
    (fields.DateTime, INSTANT),
    (fields.Dict, {"type": "object"}),
)
MONEY: Json = {
    "type": "number",
    "minimum": 0,
    "exclusiveMaximum": math.ceil(MAX_MONEY),  # the maximum itself is not a float
}  # without `multipleOf`: as floats even 0.1 is no multiple of a millionth
FORM_DESCRIPTION = (
    "As a form: a list is a repeated field, a JSON value is written as JSON, a blank is null for a "
    "nullable field that is not text; a single blank is a list without items."
)


def body_content(
    schema: Schema, components: Components, *, partial: bool = False, max_items: int = 0
) -> Json:
    """Describe a body in each media type; in JSON it may also be a list of up to `max_items` bodies.

    Forms have schemas of their own, because generated clients choose the media type by the class of the body.
    """
    reference = body_reference(schema, components, partial=partial)
    form: Json = {"schema": {"allOf": [reference, {"description": FORM_DESCRIPTION}]}}
    values = [name for name, field in _named(schema).items() if _is_json(field)]
    if values:
        form["encoding"] = {name: {"contentType": "application/json"} for name in values}
    several = {"type": "array", "items": reference, "maxItems": max_items}
    sent = {"anyOf": [reference, several]} if max_items else reference
    return {"application/json": {"schema": sent}, URLENCODED: form, MULTIPART: _with_files(form, schema)}


def _with_files(form: Json, schema: Schema) -> Json:
    """Describe a form that may contain files, which no other media type can."""
    texts = _texts(schema)
    files = {
        name: {"type": "array", "items": BINARY, "maxItems": MAX_FILES, "description": texts.get(name, "")}
        for name, field in _named(schema).items()
        if isinstance(field, Files)
    }
    if not files:
        return form
    [reference, described] = form["schema"]["allOf"]
    return {**form, "schema": {"allOf": [reference, {**described, "properties": files}]}}


def body_reference(schema: Schema, components: Components, *, partial: bool) -> Json:
    """Return a reference such as `AgentBody`, or `PatchedAgentBody` if a partial body differs."""
    described = body_schema(schema, components, partial=partial)
    name = type(schema).__name__.removesuffix("Body")
    differs = partial and described != body_schema(schema, components, partial=False)
    prefix = "Patched" if differs and not name.endswith("Changes") else ""
    return components.refer(f"{prefix}{name}Body", str(described), lambda: described)


def body_schema(schema: Schema, components: Components, *, partial: bool) -> Json:
    """Describe the object that a schema accepts; with `partial` nothing is required and nothing filled in."""
    named, texts = _named(schema), _texts(schema)
    described: Json = {
        "type": "object",
        "properties": {
            name: _described(field_schema(field, components, with_default=not partial), texts.get(name))
            for name, field in named.items()
            if not isinstance(field, Files)
        },
    }
    required = [name for name, field in named.items() if field.required and not partial]
    if required:
        described["required"] = required
    description = type(schema).__dict__.get("__doc__")
    if description:
        described["description"] = description_of(description)
    return described


def query_parameters(schema: Schema, components: Components) -> list[Json]:
    texts = _texts(schema)
    return [_query_parameter(name, field, texts, components) for name, field in _named(schema).items()]


def _query_parameter(
    name: str, field: fields.Field[Any], texts: Mapping[str, str], components: Components
) -> Json:
    with_default = field.load_default is not None
    schema = field_schema(field, components, with_default=with_default, can_be_null=False)
    parameter = {"name": name, "in": "query", "required": field.required, "schema": schema}
    return _described(parameter, texts.get(name))


def field_schema(
    field: fields.Field[Any], components: Components, *, with_default: bool, can_be_null: bool = True
) -> Json:
    """Describe a field."""
    schema = _shape(field, components)
    if not isinstance(field, Money):
        schema = schema | _bounds(field)
    if field.allow_none and can_be_null:
        schema = nullable(schema)
    if with_default and field.load_default is not missing:
        default = field.load_default() if callable(field.load_default) else field.load_default
        schema = {**schema, "default": default.value if isinstance(default, StrEnum) else default}
    return schema


def _described(schema: Json, text: str | None) -> Json:
    return {**schema, "description": text} if text else schema


def _is_json(field: fields.Field[Any]) -> bool:
    """Return whether a form holds the field, or each of its items, as JSON."""
    if isinstance(field, fields.List):
        return _is_json(field.inner)
    return isinstance(field, fields.Raw | fields.Nested)


def _named(schema: Schema) -> Mapping[str, fields.Field[Any]]:
    return {field.data_key or name: field for name, field in schema.load_fields.items()}


def _texts(schema: Schema) -> dict[str, str]:
    """Return the docstrings of a schema's fields by their names in requests."""
    docstrings = attribute_docstrings(type(schema))
    fields_by_name = schema.load_fields.items()
    return {field.data_key or name: docstrings[name] for name, field in fields_by_name if name in docstrings}


def _shape(field: fields.Field[Any], components: Components) -> Json:
    match field:
        case Choice():
            return _choice(field, components)
        case Text():
            return _text(field)
        case Money():
            return MONEY
        case ListOf():
            items = field_schema(field.inner, components, with_default=False)
            return {"type": "array", "items": items, "maxItems": field.max_items}
        case fields.Nested():
            return body_reference(field.schema, components, partial=False)
        case JsonObject() | WordOrObject():
            return _object(field)
        case fields.Raw():
            return {} if field.allow_none else {"type": ANY_VALUE_BUT_NULL, "items": {}}
    for kind, schema in PLAIN:
        if isinstance(field, kind):
            return dict(schema)
    raise TypeError(f"the API document cannot describe the field {field}: add it to web/openapi/requests.py")


def _object(field: JsonObject | WordOrObject) -> Json:
    if isinstance(field, WordOrObject):
        has_key = {"properties": {field.key: {"type": "object"}}, "required": [field.key]}
        named = {**has_key, "additionalProperties": False} if field.key else {}
        return {"anyOf": [{"type": "string", "enum": list(field.words)}, {"type": "object", **named}]}
    if not isinstance(field, SecretHeaders):
        return {"type": "object"}
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^{HEADER_TEXT.pattern}$"},
        "additionalProperties": {"type": "string", "pattern": f"^{NAME_TEXT.pattern}$"},
        "maxProperties": MAX_HEADERS,
    }


def _choice(field: Choice[Any], components: Components) -> Json:
    members = [member for member in field.choices.values() if isinstance(member, StrEnum)]
    if len(members) == len(field.choices) == len(type(members[0])):
        return enum_reference(type(members[0]), components)
    return {"type": "string", "enum": list(field.choices)}


def _text(field: Text) -> Json:
    schema: Json = {"type": "string"}
    if isinstance(field, OneOf | Region):
        return {**schema, "enum": list(field.choices)}
    if not field.blank:
        schema["minLength"] = 1
    match field:
        case Email():
            form: Json = {} if field.blank else {"format": "email"}
            return {**schema, **form, "pattern": _whole(EMAIL_TEXT, field)}
        case LocalPart():
            return {**schema, "pattern": _whole(LOCAL_PART_TEXT, field)}
        case Timezone():
            return {**schema, "format": "iana-timezone", "examples": ["UTC", "Europe/Vienna"]}
        case Url():
            return {**schema, "pattern": _whole(re.compile(r"https?://\S+"), field)}
        case PhoneFilter():
            return {**schema, "pattern": "[0-9]"}
        case SecretName():
            return {**schema, "pattern": f"^{NAME_TEXT.pattern}$"}
        case Line() if not field.blank:
            return {**schema, "pattern": NOT_BLANK}
        case _:
            return schema


def _whole(pattern: re.Pattern[str], field: Text) -> str:
    """Return a pattern for the whole text, or also for no text if blank is allowed."""
    return f"^({pattern.pattern}){'?' if field.blank else ''}$"


def _bounds(field: fields.Field[Any]) -> Json:
    """Return the lengths and ranges of the field's validators."""
    bounds: list[tuple[str, Any]] = []
    for validator in field.validators:
        match validator:
            case validate.Length() if isinstance(field, fields.List):
                bounds += [("minItems", validator.min), ("maxItems", validator.max)]
            case validate.Length():
                bounds += [("minLength", validator.min), ("maxLength", validator.max)]
            case validate.Range():
                bounds += [("minimum", validator.min), ("maximum", validator.max)]
    return {name: bound for name, bound in bounds if bound is not None}
