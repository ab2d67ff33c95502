"""What the service asks a worker process, in a module of its own: the service does not load the library."""

from enum import StrEnum


class CheckRequest(StrEnum):
    """The kind of a request; its JSON values follow."""

    SCHEMA = "schema"  # a schema, then the values to check against it
    REFERENCES = "references"
