-- The messages between an agent and a contact in their order, for the conversation that a run starts with. It also
-- finds the messages of a contact that is deleted.
CREATE INDEX message_of_conversation ON message (contact_id, agent_id, created_at DESC, id DESC)
    WHERE contact_id IS NOT NULL;
DROP INDEX message_of_contact;
