-- rolling
-- A pause of the whole instance: while it is set nothing starts, and nothing is sent. A restored backup begins with it.
-- hostsvc restore adds the columns to a backup of an older release, before anything could start.
ALTER TABLE instance
    ADD COLUMN IF NOT EXISTS paused_at timestamptz,
    ADD COLUMN IF NOT EXISTS paused_because text NOT NULL DEFAULT '';  -- completes a sentence: 'it was restored from …'
