"""The errors that storage raises.

StorageError
├── DatabaseUnavailable     the database cannot be reached, or a command or an acquire timed out
│   ├── RowLocked           another session held a row for longer than the lock timeout
│   ├── DatabaseBusy        too many writes of one kind wait; nothing of this one was done
│   ├── NoAnswer            a command or a connection took too long; the command may still take effect
│   ├── DatabaseReadOnly    the server takes no writes; the command had no effect
│   ├── SchemaChanged       a migration changed a table; the transaction had no effect
│   └── DatabaseFull        the disk of the server is full; the command had no effect
├── DatabaseRefused         the service may not start on this database
│   ├── SchemaMismatch      its schema is newer than this version, or a migration was changed
│   └── NodesRemain         nodes live that this version, or its schema, cannot work beside
├── SecretUnreadable        a stored secret cannot be decrypted
├── NodeEnded               this node has been condemned: its process ends
├── Forbidden               the row belongs to another organization, or ranks above the caller
├── LastOwner               an organization would be left without an owner
├── LimitReached            the organization stores as much as it may
├── RunLimitReached         the organization has as many runs as it may, over all nodes
└── ConstraintError         a write that the data forbids
    ├── NotUnique           some fields must make a unique set
    ├── BadAddress          a phone number or e-mail address of a contact is refused
    ├── AddressTaken        an address belongs to another contact
    ├── ParentCycle         a row would be its own ancestor
    ├── ReferenceMissing    an id refers to no row
    ├── TraceFull           a trace would have more spans than it may
    ├── TooManyTags         an agent would have more tags than it may
    └── AnsweredBefore      a repeated request has already taken effect
"""

from collections.abc import Sequence
from uuid import UUID


class StorageError(Exception):
    """Something went wrong in storage."""


class DatabaseUnavailable(StorageError):
    """The database cannot be reached or did not answer in time."""


class RowLocked(DatabaseUnavailable):
    """Another session held a row for longer than the lock timeout; the same write may succeed soon."""


class DatabaseBusy(DatabaseUnavailable):
    """Too many writes of one kind wait for the database; nothing of this one was done."""


class NoAnswer(DatabaseUnavailable):
    """The database did not answer in time; a statement that was sent may still take effect."""


class DatabaseReadOnly(DatabaseUnavailable):
    """The server takes no writes: it is a standby, or its administrator forbids them."""


class SchemaChanged(DatabaseUnavailable):
    """A migration changed a table that a prepared statement reads; the same transaction will succeed."""


class DatabaseFull(DatabaseUnavailable):
    """The disk of the server is full."""


class DatabaseRefused(StorageError):
    """The service may not start on this database; the message says why and what to do."""


class SchemaMismatch(DatabaseRefused):
    """The database's schema and this version of the service do not go together."""


class NodesRemain(DatabaseRefused):
    """Nodes live beside which this version may not migrate or join; `node_ids` are their numbers."""

    def __init__(self, message: str, node_ids: frozenset[int]) -> None:
        super().__init__(message)
        self.node_ids = node_ids


class SecretUnreadable(StorageError):
    """The secret stored at `place` cannot be decrypted; the message says why and what to do."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the stored secret {place} cannot be decrypted: {reason}; "
            "add the missing key to accounts.encryption_keys, or replace the stored value"
        )
        self.place = place


class NodeEnded(StorageError):
    """This node has been condemned: it may neither write nor start anything, and its process ends."""


class Forbidden(StorageError):
    """The row belongs to another organization, or ranks above the caller."""


class LastOwner(StorageError):
    """An organization would be left without an owner."""


class LimitReached(StorageError):
    """The limit `name` is reached: by the organization, unless `message` says otherwise."""

    def __init__(self, name: str, limit: int, message: str = "") -> None:
        super().__init__(message or f"The organization has reached limits.{name}, which is {limit}.")
        self.name = name
        self.limit = limit


class RunLimitReached(StorageError):
    """The organization has as many runs as it may, over all nodes.

    With `next_ids` it may have so many more, and these agents of it have waited longer, perhaps in other
    nodes; the longest wait comes first.
    """

    def __init__(self, next_ids: Sequence[UUID] = ()) -> None:
        super().__init__("the organization has as many runs as it may")
        self.next_ids = next_ids


class ConstraintError(StorageError):
    """The data forbids this write."""


class NotUnique(ConstraintError):
    """The fields named in `fields` must make a unique set."""

    def __init__(self, *fields: str) -> None:
        super().__init__(f"not unique: {', '.join(fields)}")
        self.fields = fields


class BadAddress(ConstraintError):
    """The text given for `field` is no address; the message says what to enter."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class AddressTaken(ConstraintError):
    """The `address` given for `field` belongs to another contact of the organization, `contact_id`."""

    def __init__(self, field: str, address: str, contact_id: UUID) -> None:
        super().__init__(f"{address} is an address of the contact {contact_id}")
        self.field = field
        self.address = address
        self.contact_id = contact_id


class ParentCycle(ConstraintError):
    """A row would be its own ancestor."""


class ReferenceMissing(ConstraintError):
    """The id given for `field` refers to no row."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} refers to no row")
        self.field = field


class TraceFull(ConstraintError):
    """The trace would have more than `max_spans` spans; `stored` is how many it has."""

    def __init__(self, trace_id: UUID, max_spans: int, stored: int) -> None:
        super().__init__(f"trace {trace_id} may have at most {max_spans} spans")
        self.trace_id = trace_id
        self.max_spans = max_spans
        self.stored = stored


class TooManyTags(ConstraintError):
    """The agent would have more tags than it may, or longer ones."""


class AnsweredBefore(ConstraintError):
    """A request with this idempotency key has already taken effect; its receipt holds the answer."""
