"""The advisory locks of the service, as the two integers that PostgreSQL takes. Each database has its own."""

_SERVICE = 0x68737663  # "hsvc": keeps our locks apart from those of other programs in the same database

LEADER = (_SERVICE, 1)  # held by the leader's own connection
MIGRATION = (_SERVICE, 2)  # held while migrations are applied
PARENTS = (_SERVICE, 3)  # held while an agent's parent changes

# Shared, with the epoch as the second integer: held by each pool connection of that epoch's instance.
# Never taken exclusively: a waiting exclusive lock would block every new connection of the active instance.
MEMBER = _SERVICE + 1
