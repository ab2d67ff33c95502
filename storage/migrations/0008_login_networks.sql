-- The networks from which a user has logged in lately: a guesser elsewhere cannot keep the user out there.
CREATE TABLE login_network (
    user_id uuid NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    network_hash bytea NOT NULL,                -- of the user's id and the network; no address is stored
    logged_in_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, network_hash)
);
