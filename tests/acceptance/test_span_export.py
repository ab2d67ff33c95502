"""The process that exports the spans of a service."""

import asyncio
import os
import signal
from pathlib import Path

from storage.ids import new_id
from tests.acceptance.process import Sections, launched_by, serving
from tests.patience import PATIENCE_SECONDS
from tests.processes import POLL_SECONDS, all_gone, marked


async def test_exporting_process_comes_again_and_ends_with_its_service(
    directory: Path, database_url: str
) -> None:
    mark = f"mark={new_id()}"
    receiver = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_RESOURCE_ATTRIBUTES": mark}
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(directory, "service", sections, launched_by("-m", "hostsvc", **receiver)) as service:
        first = await exporting_process(mark, {service.pid})
        os.kill(first, signal.SIGKILL)
        await exporting_process(mark, {service.pid, first})
        await service.kill()
    await all_gone(mark)


async def exporting_process(mark: str, others: set[int]) -> int:
    """Return the process with this mark that is none of the others, once there is one."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := set(marked(mark)) - others):  # noqa: ASYNC110 -- the service starts it
            await asyncio.sleep(POLL_SECONDS)
    return found.pop()
