"""The data of events has the fields that the catalogue describes."""

from collections.abc import Iterable
from typing import Any

from tests.web.conftest import Api, Service
from web.api.events.schemas import DATA

AGENTS = "/api/cloud/agents/"
LIST = "SELECT DISTINCT ON (type) type, data FROM event WHERE type <> 'audit' ORDER BY type, id DESC"


async def test_data_has_the_fields_of_the_catalogue(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    await api.create_notification(agent, priority="high")
    await service.wait_until_idle()
    reminder = await api.create_notification(agent, scheduled_for="2099-01-01T00:00:00Z")
    path = f"/api/defaults/notifications/{reminder['id']}/"
    await api.patch(path, {"priority": "high", "scheduled_for": "2099-01-02T00:00:00Z"})
    await api.delete(path)
    await api.post(f"{AGENTS}{agent['id']}/stop/", {"reason": "Enough"})
    await api.patch(f"{AGENTS}{agent['id']}/", {"name": "Bob"})
    await api.delete(f"{AGENTS}{agent['id']}/")

    found = {row["type"]: row["data"] for row in await service.storage.pool.fetch(LIST)}

    assert len(found) > 8
    for type_, data in found.items():
        shape: Any = DATA[type_]
        required, optional = map(names_of, (shape.__required_keys__, shape.__optional_keys__))
        assert required <= data.keys() <= required | optional, type_


def names_of(keys: Iterable[str]) -> set[str]:
    """Return the names of fields without the mark that tells one from a keyword of Python."""
    return {key.rstrip("_") for key in keys}
