"""The errors that storage raises.

StorageError
├── DatabaseUnavailable     the database cannot be reached, or a command or an acquire timed out
│   └── RowLocked           another session held a row for longer than the lock timeout
├── DatabaseRefused         the service may not start on this database
│   └── SchemaMismatch      its schema is newer than this version, or a migration was changed
├── LeadershipLost          another instance leads, or the leader's connection is gone
├── Forbidden               the row belongs to another organization, or ranks above the caller
├── LastOwner               an organization would be left without an owner
├── LimitReached            the organization stores as much as it may
└── ConstraintError         a write that the data forbids
    ├── NotUnique           some fields must make a unique set
    ├── ParentCycle         a row would be its own ancestor
    ├── ReferenceMissing    an id refers to no row
    └── AnsweredBefore      a repeated request has already taken effect
"""


class StorageError(Exception):
    """Something went wrong in storage."""


class DatabaseUnavailable(StorageError):
    """The database cannot be reached or did not answer in time."""


class RowLocked(DatabaseUnavailable):
    """Another session held a row for longer than the lock timeout; the same write may succeed soon."""


class DatabaseRefused(StorageError):
    """The service may not start on this database; the message says why and what to do."""


class SchemaMismatch(DatabaseRefused):
    """The database's schema and this version of the service do not go together."""


class LeadershipLost(StorageError):
    """This instance does not lead, or no longer leads."""


class Forbidden(StorageError):
    """The row belongs to another organization, or ranks above the caller."""


class LastOwner(StorageError):
    """An organization would be left without an owner."""


class LimitReached(StorageError):
    """The organization stores as much as the limit `name` allows."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"The organization has reached its limit {name}: {limit}.")
        self.name = name
        self.limit = limit


class ConstraintError(StorageError):
    """The data forbids this write."""


class NotUnique(ConstraintError):
    """The fields named in `fields` must make a unique set."""

    def __init__(self, *fields: str) -> None:
        super().__init__(f"not unique: {', '.join(fields)}")
        self.fields = fields


class ParentCycle(ConstraintError):
    """A row would be its own ancestor."""


class ReferenceMissing(ConstraintError):
    """The id given for `field` refers to no row."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} refers to no row")
        self.field = field


class AnsweredBefore(ConstraintError):
    """A request with this idempotency key has already taken effect; its receipt holds the answer."""
