"""The lowest cost of argon2. At the real one a hash takes 0.2 s, and many tests sign somebody up."""

from typing import Any

from web.credentials import passwords

MEMORY_KIB = 8
COST = f"m={MEMORY_KIB},t=1,p={passwords.LANES}"

# What replaces the constants of `web.credentials.passwords`.
CHEAP: dict[str, Any] = {
    "PASSES": 1,
    "MEMORY_KIB": MEMORY_KIB,
    "NOBODYS_HASH": f"$argon2id$v=19${COST}${passwords.SALT}${passwords.DIGEST}",
}
