"""API keys: what is sent and shown. The key itself is shown by its creation only."""

from typing import Any

from storage.model import ApiKey
from web.fields import Boolean, Line
from web.parsing import Body


class NewApiKey(Body):
    name = Line(required=True, blank=False, max_length=255)
    is_active = Boolean(load_default=True)


def show_api_key(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "is_active": key.is_active,
        "last_used_at": key.last_used_at,
        "created_at": key.created_at,
    }
