-- Secrets for the code and the tools of agents: of an organization, or of one of its templates.
CREATE TABLE secret (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    template_id uuid REFERENCES template (id) ON DELETE CASCADE,  -- null: of the organization
    name text NOT NULL,
    value text NOT NULL,                        -- encrypted under accounts.encryption_keys
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT secret_name_unique UNIQUE NULLS NOT DISTINCT (organization_id, template_id, name)
);
CREATE INDEX secret_by_organization ON secret (organization_id, created_at DESC, id DESC)
    WHERE template_id IS NULL;
CREATE INDEX secret_by_template ON secret (template_id, created_at DESC, id DESC)
    WHERE template_id IS NOT NULL;

-- Headers of tool calls, each with the name of the secret that is its value.
ALTER TABLE adapter_config ADD COLUMN secret_headers json NOT NULL DEFAULT '{}';
