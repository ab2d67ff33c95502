-- rolling
-- Failed attempts at passwords and codes, counted over all nodes. A crash of the server forgets them.

-- A bucket of tokens that failed attempts take; it fills evenly. A full one needs no row.
CREATE UNLOGGED TABLE throttle_bucket (
    key bytea PRIMARY KEY,                      -- a hash: who attempts, and what
    full_at timestamptz NOT NULL
);
