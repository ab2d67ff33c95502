"""The export of spans has a process of its own, so that it takes no time from the event loop that serves."""

import logging
import pickle
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import orjson
from structlog.contextvars import get_contextvars

from hostsvc.config import Config
from hostsvc.logs import LogSettings
from hostsvc.otlp_receiver import OtlpSettings
from storage.postgres.pool import DatabaseSettings
from supervisors.clock import Clock
from supervisors.line_process import LineProcess, start_line_process

EXPORTER = "hostsvc.span_export_process"


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """What the process has to know.

    `context` stands in each line of its log. `after` is the time from the end of a run to the export of its
    spans.
    """

    log: LogSettings
    context: Mapping[str, Any]
    database: DatabaseSettings
    receiver: OtlpSettings
    after: timedelta
    has_content: bool


class SpanExport:
    """Lets the process export, which starts when it is first needed, and again if it has ended."""

    def __init__(self, settings: ExportSettings, counts: Counter[str], clock: Clock) -> None:
        self._settings = settings
        self._counts = counts
        self._clock = clock
        self._process: LineProcess | None = None

    async def run_once(self) -> None:
        """Let the process export what is due, and count that. Raise RuntimeError if it has ended."""
        if self._process is None:
            self._process = await start_line_process(EXPORTER, "-P")
            self._process.requests.write(pickle.dumps(self._settings))
        level = logging.getLogger().level  # which SIGHUP may have changed
        answer = await self._process.ask(f"{self._clock.now().isoformat()} {level}\n".encode())
        if not answer:
            await self.close()
            raise RuntimeError("the process that exports spans has ended")
        self._counts.update(orjson.loads(answer))

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()
            self._process = None


@asynccontextmanager
async def open_span_export(
    config: Config, receiver: OtlpSettings, database: str, counts: Counter[str], clock: Clock
) -> AsyncIterator[SpanExport]:
    """Open the export of the spans in the database with this URL. Its process ends with it."""
    pool = replace(config.database.pool_settings(database), pool_size=1)
    after, has_content = config.runs.stop_grace_seconds, config.tracing.exported_content == "full"
    settings = ExportSettings(
        config.log, get_contextvars(), pool, receiver, timedelta(seconds=after), has_content
    )
    export = SpanExport(settings, counts, clock)
    try:
        yield export
    finally:
        await export.close()
