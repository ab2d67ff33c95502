"""The content of spans: what a model or a tool was told and answered, apart from the other metadata."""

from typing import Any

from asyncpg import Record

from storage.postgres.json_values import EncodedJson, to_json

INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"


def full_metadata(row: Record) -> Any:
    """Return the metadata of a span with its content, from the columns of both.

    Metadata that a client replaced by something other than an object is returned alone.
    """
    metadata, content = row["metadata"], row["content"]
    if content is None or not _is_object(metadata):
        return metadata
    found = {INSTRUCTIONS: row["instructions"], TOOL_DEFINITIONS: row["tools"]}
    shared = {key: value for key, value in found.items() if value is not None}
    if any(isinstance(part, EncodedJson) for part in (metadata, content, *shared.values())):
        return EncodedJson(_joined([to_json(part) for part in (metadata, shared, content)]))
    return {**metadata, **shared, **content}


def _is_object(value: Any) -> bool:
    return value.text.startswith(b"{") if isinstance(value, EncodedJson) else isinstance(value, dict)


def _joined(objects: list[bytes]) -> bytes:
    """Return one object with the members of all, without parsing them: they may be long."""
    members = (text.strip()[1:-1].strip() for text in objects)
    return b"{" + b",".join(filter(None, members)) + b"}"
