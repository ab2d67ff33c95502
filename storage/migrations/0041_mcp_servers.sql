-- MCP servers whose tools are tools of adapters.
CREATE TABLE mcp_server (
    adapter_id uuid PRIMARY KEY REFERENCES adapter (id) ON DELETE CASCADE,
    url text NOT NULL,
    headers json NOT NULL,               -- of requests for the list; the value of each names a secret
    refresh_at timestamptz NOT NULL,            -- when the list is read again
    listed_at timestamptz,                      -- NULL: it was never read
    error text NOT NULL DEFAULT ''              -- why the list, or a part of it, could not be taken
);
CREATE INDEX mcp_server_due ON mcp_server (refresh_at);

-- What the server offers and nobody has accepted: description, parameters and is_enforced; {}: it offers the tool no
-- more. NULL: no difference. A tool that is new has no url until it is accepted.
ALTER TABLE tool ADD COLUMN offered json;
