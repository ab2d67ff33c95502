-- Event webhooks: addresses that get the events of an organization as they happen.
CREATE TABLE webhook (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    url text NOT NULL,
    description text NOT NULL,
    types text[] NOT NULL,                      -- 'run.ended', all of a kind as 'run.*', or '*'
    -- Which agents it is about: this one, those of this template, those with this tag. No foreign keys: without the
    -- agent or the template the webhook gets nothing, instead of everything.
    agent_id uuid,
    template_id uuid,
    tag text NOT NULL,
    is_active boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- The last event that was compared with it. It moves in the transaction that stores the deliveries.
    position bigint NOT NULL,
    failing_since timestamptz,                  -- the first failed attempt since the last success
    disabled_at timestamptz,                    -- when the service switched it off
    disabled_reason text NOT NULL DEFAULT ''
);
CREATE INDEX webhook_of_organization ON webhook (organization_id, created_at DESC, id DESC);
CREATE INDEX webhook_active ON webhook (organization_id) WHERE is_active;

-- The secrets that sign: the current one, which is valid without end, and those that a rotation has replaced.
CREATE TABLE webhook_secret (
    id uuid PRIMARY KEY,
    webhook_id uuid NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    value text NOT NULL,
    valid_until timestamptz
);
CREATE INDEX webhook_secret_of_webhook ON webhook_secret (webhook_id);

-- A delivery goes to the webhook of a template, or to an event webhook.
ALTER TABLE webhook_delivery
    ALTER COLUMN agent_id DROP NOT NULL,
    ALTER COLUMN template_id DROP NOT NULL,
    ADD COLUMN webhook_id uuid;
CREATE INDEX webhook_delivery_of_webhook
    ON webhook_delivery (organization_id, webhook_id, created_at DESC, id DESC) WHERE webhook_id IS NOT NULL;
CREATE INDEX webhook_delivery_pending ON webhook_delivery (webhook_id)
    WHERE next_attempt_at IS NOT NULL AND webhook_id IS NOT NULL;
