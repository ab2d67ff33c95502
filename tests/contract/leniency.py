"""Other ways to write a value that the service accepts, as the introduction of its document says.

`canonical` writes such values the usual way. If a request then fits the document, it was rightly accepted.
"""

import json
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

import jsonschema_rs

DIGITS = re.compile(r"-?[0-9]{1,1000}")
NUMBER = re.compile(r"-?[0-9]{1,100}(\.[0-9]{1,100})?")
OFFSET = re.compile(r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$", re.IGNORECASE)
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

Json = dict[str, Any]


class Leniency:
    """The schemas of a document, applied to values after they are written the usual way."""

    def __init__(self, document: Json) -> None:
        self._components = document["components"]
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def allows(self, value: Any, schema: Json) -> bool:
        """Return whether the value, or the usual way to write it, fits the schema."""
        validator = self._validator(schema)
        return validator.is_valid(value) or validator.is_valid(self.canonical(value, schema))

    def _validator(self, schema: Json) -> jsonschema_rs.Draft202012Validator:
        key = repr(schema)
        if key not in self._validators:
            whole = {**schema, "components": self._components}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return self._validators[key]

    def canonical(self, value: Any, schema: Json) -> Any:
        """Return the value written the usual way, as far as there is a rule."""
        schema = self._not_null(schema)
        kinds = schema.get("type", [])
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        match value:
            case dict() if "properties" in schema:
                return {
                    name: self.canonical(item, schema["properties"].get(name, {}))
                    for name, item in value.items()
                }
            case list() if "array" in kinds and "items" in schema:
                return [self.canonical(item, schema["items"]) for item in value]
            case str() | int() | float():
                return _scalar(value, kinds, schema)
            case _:
                return value

    def written_as_form(self, body: Json, media_type: Json) -> Json:
        """Return the values as a form contains them: JSON as text, null and an empty list as a blank.

        A null for text is left out, as a form cannot express it.
        """
        properties = self._resolved(media_type["schema"]).get("properties", {})
        written: Json = {}
        for name, value in body.items():
            if value == [] and self._is_list(properties.get(name, {})):
                written[name] = ""
            elif name in media_type.get("encoding", {}):
                # For schemathesis, a field of any text accepts the text "null"; read as JSON, that is null.
                if value is None and not self._takes(properties[name], "object"):
                    value = "null"
                is_list = self._is_list(properties[name]) and isinstance(value, list)
                written[name] = [json.dumps(each) for each in value] if is_list else json.dumps(value)
            elif isinstance(value, float):
                written[name] = f"{Decimal(repr(value)):f}"
            elif value is not None or not self._takes(properties.get(name, {}), "string", free=True):
                written[name] = "" if value is None else value
        return written

    def read_form(self, texts: Mapping[str, list[str]], schema: Json, encoding: Collection[str] = ()) -> Json:
        """Return the object that a form means. A single blank text is an empty list."""
        read = self.read_texts(texts, schema, encoding)
        return {name: [] if value == [""] else value for name, value in read.items()}

    def read_texts(
        self, texts: Mapping[str, list[str]], schema: Json, encoding: Collection[str] = ()
    ) -> Json:
        """Return the object that a query means: a list has all texts of a name, another field the last."""
        properties = self._resolved(schema).get("properties", {})
        read: Json = {}
        for name, each in texts.items():
            if name in properties:
                values = [self._of_text(text, properties[name], name in encoding) for text in each]
                read[name] = values if self._is_list(properties[name]) else values[-1]
        return read

    def _of_text(self, text: str, schema: Json, is_json: bool) -> Any:
        if is_json:
            return _parsed(text)
        is_null = not text and self._takes(schema, "null") and not self._takes(schema, "string", free=True)
        return None if is_null else text

    def _is_list(self, schema: Json) -> bool:
        """Return whether the schema allows a list and nothing else."""
        return self._not_null(schema).get("type") == "array"

    def _takes(self, schema: Json, kind: str, *, free: bool = False) -> bool:
        """Return whether the schema names the type; with `free` only without a format."""
        resolved = self._resolved(schema)
        kinds = resolved.get("type", [])
        named = kind in ([kinds] if isinstance(kinds, str) else kinds)
        return (named and not (free and "format" in resolved)) or any(
            self._takes(each, kind, free=free) for each in resolved.get("anyOf", [])
        )

    def _not_null(self, schema: Json) -> Json:
        """Return the first alternative of the schema, which is the one that is not null."""
        resolved = self._resolved(schema)
        return self._not_null(resolved["anyOf"][0]) if "anyOf" in resolved else resolved

    def _resolved(self, schema: Json) -> Json:
        """Follow references and the first member of `allOf`, which is the one with rules."""
        if "$ref" in schema:
            return self._resolved(self._components["schemas"][schema["$ref"].rpartition("/")[2]])
        if "allOf" in schema:
            return self._resolved(schema["allOf"][0])
        return schema


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _scalar(value: str | float, kinds: set[str], schema: Json) -> Any:
    text = value.strip() if isinstance(value, str) else str(value)
    if "integer" in kinds and DIGITS.fullmatch(text):
        return int(text)
    if "integer" in kinds and isinstance(value, float) and value.is_integer():
        return int(value)
    if "number" in kinds and NUMBER.fullmatch(text):
        return float(text)
    if "boolean" in kinds and not isinstance(value, float) and text.lower() in BOOLEANS:
        return BOOLEANS[text.lower()]
    if "string" in kinds and not isinstance(value, bool):
        return _instant(text) if schema.get("format") == "date-time" else text
    return value


def _instant(text: str) -> str:
    """Return the datetime with seconds and offset, either of which may be missing."""
    text = text.upper().replace(" ", "T").replace(",", ".")
    offset = OFFSET.search(text, 11)
    local, shown = (text[: offset.start()], offset[0]) if offset else (text, "Z")
    if re.fullmatch(r"[^T]+T[0-9]{2}:[0-9]{2}", local):
        local += ":00"
    digits = shown[1:].replace(":", "")
    return local + (shown if shown == "Z" else f"{shown[0]}{digits[:2]}:{digits[2:] or '00'}")
