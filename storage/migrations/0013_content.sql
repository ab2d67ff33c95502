-- What models and tools were told and answered in runs. It is kept apart from the other metadata of the spans,
-- because it has a retention of its own.

-- `content` is an object whose keys belong to the metadata. `instructions` and `tools` are the digests of the
-- system prompt and the tool definitions in shared_content, where they changed since the run's last call.
ALTER TABLE span_metadata ADD COLUMN content json,
                          ADD COLUMN instructions bytea,
                          ADD COLUMN tools bytea;

-- System prompts and tool definitions: stored once for each organization, however many calls they are sent with.
CREATE TABLE shared_content (
    organization_id uuid NOT NULL,
    digest bytea NOT NULL,                      -- SHA-256 of the JSON text
    content json NOT NULL,
    used_at timestamptz NOT NULL,               -- to the day
    PRIMARY KEY (organization_id, digest)
);
CREATE INDEX shared_content_used ON shared_content (organization_id, used_at);

-- Which traces have content, since when, and by whose retention it is kept: the template of the agent, or the
-- nil UUID without one.
ALTER TABLE trace_size ADD COLUMN content_at timestamptz,
                       ADD COLUMN content_template uuid;
CREATE INDEX trace_size_content ON trace_size (content_template, content_at) WHERE content_at IS NOT NULL;
