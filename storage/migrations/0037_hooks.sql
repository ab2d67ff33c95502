-- Inbound hooks: addresses at which other services deliver events, which become notifications.
CREATE TABLE hook (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    name text NOT NULL,
    -- One of the two. No foreign keys: without its agent or template a hook refuses what comes, and says why.
    agent_id uuid,
    template_id uuid,
    verify text NOT NULL,
    header text NOT NULL,                       -- this and the next three describe signatures of the kind hmac
    algorithm text NOT NULL,
    encoding text NOT NULL,
    prefix text NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    source text NOT NULL,
    priority text NOT NULL,
    only_if json,                               -- a JSON Schema
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    secret text NOT NULL,
    old_secret text NOT NULL,                   -- the one before; '' if there was none
    old_secret_until timestamptz,
    CHECK ((agent_id IS NULL) <> (template_id IS NULL))
);
CREATE INDEX hook_of_organization ON hook (organization_id, created_at DESC, id DESC);
CREATE INDEX hook_of_agent ON hook (agent_id) WHERE agent_id IS NOT NULL;

-- The record of the deliveries to a hook.
CREATE INDEX event_of_hook ON event (actor, id) WHERE actor LIKE 'hook:%';

-- JSON that a hook was sent. Readers see it as an attachment with the id of the notification.
CREATE TABLE notification_payload (
    id uuid PRIMARY KEY REFERENCES notification (id) ON DELETE CASCADE,
    organization_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    content text NOT NULL
);
CREATE INDEX notification_payload_of_organization ON notification_payload (organization_id);
