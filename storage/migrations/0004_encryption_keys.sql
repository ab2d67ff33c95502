-- The keys of accounts.encryption_keys under which secrets are stored. The keys themselves are not here: a start
-- without one of these keys is refused, instead of failing later at each secret that it cannot read.
CREATE TABLE encryption_key (
    id text PRIMARY KEY,                        -- the first eight hexadecimal digits of a hash of the key
    created_at timestamptz NOT NULL,
    rotated_at timestamptz                      -- since then every secret is encrypted with it; null: some may not be
);
