"""What can go wrong in storage.

StorageError
├── DatabaseUnavailable     the database is away, or a command or an acquire timed out
│   └── RowLocked           somebody else held a row for longer than we wait
├── DatabaseRefused         the service may not start on this database
│   └── SchemaMismatch      its schema is newer than this version, or a migration was changed
├── LeadershipLost          another instance leads, or the leader's connection is gone
├── Forbidden               the row belongs to another organization, or stands above who asks
├── LastOwner               an organization would be left without an owner
└── ConstraintError         a write that the data forbids
    ├── NotUnique           some fields must make a unique set
    ├── Circle              a row would be its own ancestor
    ├── ReferenceMissing    an id that names no row
    └── AnsweredBefore      a request that was sent twice has had its effect
"""


class StorageError(Exception):
    """Something went wrong in storage."""


class DatabaseUnavailable(StorageError):
    """The database cannot be reached or did not answer in time."""


class RowLocked(DatabaseUnavailable):
    """Somebody else held a row for longer than we wait; the same write may succeed soon."""


class DatabaseRefused(StorageError):
    """The service may not start on this database; the message says why and what to do."""


class SchemaMismatch(DatabaseRefused):
    """The database's schema and this version of the service do not go together."""


class LeadershipLost(StorageError):
    """This instance does not lead (any more)."""


class Forbidden(StorageError):
    """The row belongs to another organization, or stands above who asks."""


class LastOwner(StorageError):
    """An organization would be left without an owner."""


class ConstraintError(StorageError):
    """The data forbids this write."""


class NotUnique(ConstraintError):
    """The fields named in `fields` must make a unique set."""

    def __init__(self, *fields: str) -> None:
        super().__init__(f"not unique: {', '.join(fields)}")
        self.fields = fields


class Circle(ConstraintError):
    """A row would be its own ancestor."""


class ReferenceMissing(ConstraintError):
    """The id given for `field` names no row."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} names no row")
        self.field = field


class AnsweredBefore(ConstraintError):
    """A request with this idempotency key has had its effect; its receipt holds the answer."""
