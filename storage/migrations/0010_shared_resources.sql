-- What an agent sees includes the contacts, documents and projects for all agents of its organization.
CREATE INDEX contact_shared ON contact (organization_id, created_at DESC, id DESC) WHERE agent_id IS NULL;
CREATE INDEX document_shared ON document (organization_id, created_at DESC, id DESC) WHERE agent_id IS NULL;
CREATE INDEX project_shared ON project (organization_id, created_at DESC, id DESC) WHERE agent_id IS NULL;
