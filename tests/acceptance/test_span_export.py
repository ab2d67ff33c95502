"""The process that exports the spans of a service."""

import asyncio
from pathlib import Path

from storage.ids import new_id
from tests.acceptance.process import Sections, launched_by, serving
from tests.processes import POLL_SECONDS, all_gone, marked


async def test_killed_service_leaves_no_exporting_process(directory: Path, database_url: str) -> None:
    mark = f"mark={new_id()}"
    receiver = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_RESOURCE_ATTRIBUTES": mark}
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(directory, "service", sections, launched_by("-m", "hostsvc", **receiver)) as service:
        while len(marked(mark)) < 2:  # noqa: ASYNC110 -- the service starts it
            await asyncio.sleep(POLL_SECONDS)
        await service.kill()
    await all_gone(mark)
