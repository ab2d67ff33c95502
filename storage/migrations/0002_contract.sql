-- The rest of the interface: invites, the toolbox, the data of an agent's channels, usage, caps on spending,
-- webhook deliveries, and the stored answers to repeated requests.

ALTER TABLE organization ADD COLUMN max_cost_usd_per_day numeric(18, 6) CHECK (max_cost_usd_per_day >= 0);
ALTER TABLE template ADD COLUMN max_cost_usd_per_day numeric(18, 6) CHECK (max_cost_usd_per_day >= 0);
ALTER TABLE agent ADD COLUMN max_cost_usd_per_day numeric(18, 6) CHECK (max_cost_usd_per_day >= 0);

CREATE INDEX organization_paused ON organization (id) WHERE paused;

-- Password reset: the hash of a code that an operator issued, valid for an hour.
ALTER TABLE user_account ADD COLUMN reset_code_hash bytea;
ALTER TABLE user_account ADD COLUMN reset_code_expires_at timestamptz;

CREATE TABLE invite (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    email text NOT NULL,
    role text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    code_hash bytea NOT NULL,                   -- SHA-256; the code itself is shown once
    expires_at timestamptz NOT NULL,
    accepted_at timestamptz,
    created_at timestamptz NOT NULL
);
CREATE INDEX invite_of_organization ON invite (organization_id, created_at DESC, id DESC);

CREATE INDEX adapter_of_organization ON adapter (organization_id, created_at DESC, id DESC);
CREATE INDEX adapter_public ON adapter (created_at DESC, id DESC) WHERE visibility = 'public';

CREATE TABLE tool (
    id uuid PRIMARY KEY,
    adapter_id uuid NOT NULL REFERENCES adapter (id) ON DELETE CASCADE,
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    parameters json,                           -- null if none were given
    is_enforced boolean NOT NULL,              -- whether parameters is a JSON Schema for the arguments of calls
    url text NOT NULL DEFAULT '',
    handler text NOT NULL DEFAULT '',
    detail_url text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    CONSTRAINT tool_name_unique UNIQUE (adapter_id, name)
);

CREATE TABLE adapter_config (
    id uuid PRIMARY KEY,
    template_id uuid NOT NULL REFERENCES template (id) ON DELETE CASCADE,
    adapter_id uuid NOT NULL REFERENCES adapter (id) ON DELETE CASCADE,
    config json NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT adapter_config_unique UNIQUE (template_id, adapter_id)
);
CREATE INDEX adapter_config_of_adapter ON adapter_config (adapter_id);

-- The data of an agent's channels. It is deleted with its organization at once; with its agent in batches, some
-- time after the agent's deletion.
CREATE TABLE contact (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid REFERENCES agent (id) ON DELETE CASCADE,
    name text NOT NULL DEFAULT '',
    email text NOT NULL DEFAULT '',
    phone text NOT NULL DEFAULT '',
    metadata json NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL
);
CREATE INDEX contact_of_organization ON contact (organization_id, created_at DESC, id DESC);
CREATE INDEX contact_of_agent ON contact (agent_id, created_at DESC, id DESC) WHERE agent_id IS NOT NULL;

CREATE TABLE message (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    contact_id uuid REFERENCES contact (id) ON DELETE SET NULL,
    channel text NOT NULL,
    direction text NOT NULL CHECK (direction IN ('inbound', 'outbound')),
    subject text NOT NULL DEFAULT '',
    body text NOT NULL DEFAULT '',
    attachments json NOT NULL DEFAULT '[]',
    status text NOT NULL CHECK (status IN ('received', 'queued', 'sent', 'failed')),
    created_at timestamptz NOT NULL
);
CREATE INDEX message_of_organization ON message (organization_id, created_at DESC, id DESC);
CREATE INDEX message_of_agent ON message (agent_id, created_at DESC, id DESC);
CREATE INDEX message_of_contact ON message (contact_id) WHERE contact_id IS NOT NULL;

CREATE TABLE project (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid REFERENCES agent (id) ON DELETE CASCADE,
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'done', 'archived')),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX project_of_organization ON project (organization_id, created_at DESC, id DESC);
CREATE INDEX project_of_agent ON project (agent_id, created_at DESC, id DESC) WHERE agent_id IS NOT NULL;

CREATE TABLE document (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid REFERENCES agent (id) ON DELETE CASCADE,
    project_id uuid REFERENCES project (id) ON DELETE SET NULL,
    title text NOT NULL,
    content text NOT NULL DEFAULT '',
    content_type text NOT NULL DEFAULT 'text/plain',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX document_of_organization ON document (organization_id, created_at DESC, id DESC);
CREATE INDEX document_of_agent ON document (agent_id, created_at DESC, id DESC) WHERE agent_id IS NOT NULL;
CREATE INDEX document_of_project ON document (project_id) WHERE project_id IS NOT NULL;

-- One row for each model call. It outlives its agent, so there is no foreign key.
CREATE TABLE usage_record (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    trace_id uuid,
    model text NOT NULL,
    input_tokens bigint NOT NULL CHECK (input_tokens >= 0),
    output_tokens bigint NOT NULL CHECK (output_tokens >= 0),
    cached_tokens bigint NOT NULL DEFAULT 0 CHECK (cached_tokens >= 0),    -- part of input_tokens
    cost_usd numeric(18, 6) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    priced boolean NOT NULL,                    -- false if the model is in no price list: the cost is unknown
    occurred_at timestamptz NOT NULL
);
CREATE INDEX usage_of_agent ON usage_record (agent_id, occurred_at);
CREATE INDEX usage_of_organization ON usage_record (organization_id, occurred_at);

-- The spending of an agent, or of an organization, in a UTC day. Each insert into usage_record updates it, so that
-- checking a budget reads one row instead of a sum. Only the current day is ever read.
CREATE TABLE spending (
    owner_id uuid NOT NULL,                     -- the agent or the organization
    day date NOT NULL,
    cost_usd numeric NOT NULL,
    PRIMARY KEY (owner_id, day)
) WITH (fillfactor = 60);
CREATE INDEX spending_of_day ON spending (day);

-- Deliveries to the templates' webhooks, each stored in the transaction of the event it reports.
CREATE TABLE webhook_delivery (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL,
    template_id uuid NOT NULL,
    url text NOT NULL,                          -- of the webhook when the delivery was stored
    payload json NOT NULL,                      -- not jsonb: exactly this text is signed and sent at each attempt
    created_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,        -- since it was last requested
    next_attempt_at timestamptz,
    delivered_at timestamptz,
    failed_at timestamptz,                      -- when it was given up
    last_status smallint,                       -- HTTP status of the last attempt; null if there was no answer
    last_error text NOT NULL DEFAULT '',
    CHECK (num_nonnulls(next_attempt_at, delivered_at, failed_at) = 1)
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (organization_id, url, next_attempt_at, id)
    WHERE next_attempt_at IS NOT NULL;
CREATE INDEX webhook_delivery_open ON webhook_delivery (failed_at) WHERE delivered_at IS NULL;
CREATE INDEX webhook_delivery_over ON webhook_delivery ((coalesce(delivered_at, failed_at)))
    WHERE next_attempt_at IS NULL;
CREATE INDEX webhook_delivery_of_organization ON webhook_delivery (organization_id, created_at DESC, id DESC);

-- The answers to requests with an Idempotency-Key, stored in the transaction of their effect, for 24 hours.
CREATE TABLE receipt (
    credential uuid NOT NULL,                   -- the id of the API key, user or run that sent the request
    method text NOT NULL,
    path text NOT NULL,
    key text NOT NULL,
    organization_id uuid NOT NULL,              -- a sender without access to it does not get the answer again
    body_hash bytea NOT NULL,                   -- SHA-256 of the request body
    status smallint NOT NULL,
    answer bytea NOT NULL,                      -- the response body
    created_at timestamptz NOT NULL,
    CONSTRAINT receipt_unique PRIMARY KEY (credential, method, path, key)
);
CREATE INDEX receipt_created ON receipt (created_at);
