"""The errors that violated constraints of the database stand for, by constraint name."""

from storage.errors import AnsweredBefore, ConstraintError, NotUnique, ReferenceMissing

_UNIQUE = {
    "user_account_pkey": ("id",),
    "user_account_email_unique": ("email",),
    "membership_unique": ("user", "organization"),
    "invite_pkey": ("id",),
    "api_key_pkey": ("id",),
    "api_key_prefix_unique": ("prefix",),
    "template_pkey": ("id",),
    "secret_pkey": ("id",),
    "secret_name_unique": ("name",),
    "agent_pkey": ("id",),
    "agent_email_alias_unique": ("email_alias",),
    "agent_adapter_pkey": ("agent", "adapter"),
    "webhook_pkey": ("id",),
    "webhook_secret_pkey": ("id",),
    "adapter_pkey": ("id",),
    "tool_pkey": ("id",),
    "tool_name_unique": ("adapter", "name"),
    "adapter_config_pkey": ("id",),
    "adapter_config_unique": ("template", "adapter"),
    "notification_pkey": ("id",),
    "contact_pkey": ("id",),
    "contact_address_pkey": ("address",),
    "message_pkey": ("id",),
    "attachment_pkey": ("id",),
    "attachment_chunk_pkey": ("attachment", "position"),
    "document_pkey": ("id",),
    "document_path_unique": ("agent", "path"),
    "document_version_pkey": ("document", "number"),
    "project_pkey": ("id",),
    "run_pkey": ("id",),
    "trace_pkey": ("id",),
    "span_pkey": ("id",),
    "span_metadata_pkey": ("id",),
    "trace_size_pkey": ("trace",),
    "shared_content_pkey": ("organization", "digest"),
}

_REFERENCES = {
    "membership_organization_id_fkey": "organization",
    "membership_user_id_fkey": "user",
    "login_network_user_id_fkey": "user",
    "invite_organization_id_fkey": "organization",
    "api_key_organization_id_fkey": "organization",
    "adapter_organization_id_fkey": "organization",
    "template_organization_id_fkey": "organization",
    "secret_organization_id_fkey": "organization",
    "secret_template_id_fkey": "template",
    "agent_organization_id_fkey": "organization",
    "agent_template_id_fkey": "template",
    "agent_parent_id_fkey": "parent",
    "agent_adapter_agent_id_fkey": "agent",
    "agent_adapter_adapter_id_fkey": "adapters",
    "tool_adapter_id_fkey": "adapter",
    "adapter_config_template_id_fkey": "template",
    "adapter_config_adapter_id_fkey": "adapter",
    "agent_state_agent_id_fkey": "agent",
    "notification_agent_id_fkey": "agent",
    "contact_organization_id_fkey": "organization",
    "contact_agent_id_fkey": "agent",
    "contact_address_organization_id_fkey": "organization",
    "contact_address_contact_id_fkey": "contact",
    "message_organization_id_fkey": "organization",
    "message_agent_id_fkey": "agent",
    "message_contact_id_fkey": "contact",
    "attachment_organization_id_fkey": "organization",
    "attachment_agent_id_fkey": "agent",
    "attachment_message_id_fkey": "message",
    "attachment_chunk_attachment_id_fkey": "attachment",
    "document_organization_id_fkey": "organization",
    "document_agent_id_fkey": "agent",
    "document_project_id_fkey": "project",
    "document_version_document_id_fkey": "document",
    "project_organization_id_fkey": "organization",
    "project_agent_id_fkey": "agent",
    "webhook_delivery_organization_id_fkey": "organization",
    "webhook_organization_id_fkey": "organization",
    "webhook_secret_webhook_id_fkey": "webhook",
}


def constraint_error(constraint: str) -> ConstraintError | None:
    """Return the error for a violation of this constraint; None if only a bug of ours can violate it."""
    if constraint in _UNIQUE:
        return NotUnique(*_UNIQUE[constraint])
    if constraint in _REFERENCES:
        return ReferenceMissing(_REFERENCES[constraint])
    if constraint == "receipt_unique":
        return AnsweredBefore("a request with this idempotency key has been answered")
    return None
