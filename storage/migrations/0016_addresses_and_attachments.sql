-- The addresses that contacts are found by, and the files that are attached to messages.

-- The region of phone numbers that are written without a country code, such as 'AT'; '': there is none.
ALTER TABLE organization ADD COLUMN phone_region text NOT NULL DEFAULT '';

ALTER TABLE contact ADD COLUMN other_addresses text[] NOT NULL DEFAULT '{}';

-- Each address belongs to one contact of an organization.
CREATE TABLE contact_address (
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    address text NOT NULL,
    contact_id uuid NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
    CONSTRAINT contact_address_pkey PRIMARY KEY (organization_id, address)
);
CREATE INDEX contact_address_of_contact ON contact_address (contact_id);

-- Of contacts that have the same address, the oldest one is found by it. The others keep their fields. A phone
-- number without a country code is no address until the contact is changed.
WITH known AS (
    SELECT c.organization_id, lower(c.email) AS address, c.id, c.created_at
    FROM contact c LEFT JOIN agent a ON a.id = c.agent_id
    WHERE c.email <> '' AND a.deleted_at IS NULL
    UNION ALL
    SELECT c.organization_id, '+' || regexp_replace(replace(c.phone, '(0)', ''), '[^0-9]', '', 'g'), c.id, c.created_at
    FROM contact c LEFT JOIN agent a ON a.id = c.agent_id
    WHERE c.phone ~ '^(tel:)?[ (]*\+[0-9 ()./-]{7,}$' AND a.deleted_at IS NULL
    UNION ALL
    SELECT c.organization_id, c.phone, c.id, c.created_at
    FROM contact c LEFT JOIN agent a ON a.id = c.agent_id
    WHERE c.phone ~ '^[0-9]{3,6}$' AND a.deleted_at IS NULL
)
INSERT INTO contact_address (organization_id, address, contact_id)
SELECT DISTINCT ON (organization_id, address) organization_id, address, id FROM known
ORDER BY organization_id, address, created_at, id;

-- The address of the contact's end: of the sender if inbound, of the receiver if outbound; '' if it is not known.
ALTER TABLE message ADD COLUMN address text NOT NULL DEFAULT '';

-- The files that were uploaded with messages, each in pieces.
CREATE TABLE attachment (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    message_id uuid NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    name text NOT NULL,
    content_type text NOT NULL,
    size bigint NOT NULL CHECK (size >= 0)
);
CREATE INDEX attachment_of_organization ON attachment (organization_id) INCLUDE (size);
CREATE INDEX attachment_of_agent ON attachment (agent_id);
CREATE INDEX attachment_of_message ON attachment (message_id);

CREATE TABLE attachment_chunk (
    attachment_id uuid NOT NULL REFERENCES attachment (id) ON DELETE CASCADE,
    position integer NOT NULL CHECK (position >= 0),
    content bytea NOT NULL,
    CONSTRAINT attachment_chunk_pkey PRIMARY KEY (attachment_id, position)
);
-- Most files are compressed already, and the beginning of an uncompressed value is read without the rest.
ALTER TABLE attachment_chunk ALTER COLUMN content SET STORAGE EXTERNAL;
