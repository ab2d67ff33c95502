"""The process that exports spans: the settings and then lines in, lines with counts out.

A line has the time and the level of the log. After each it exports what is due. It logs as the service does,
and ends when its input does, also amid an export: another node may have begun the same one.
"""

import asyncio
import logging
import os
import pickle
import sys
from datetime import datetime
from threading import Thread

import structlog

from hostsvc.logs import configure_logging
from hostsvc.otlp_receiver import open_otlp_receiver
from hostsvc.span_export import ExportSettings
from storage.errors import StorageError
from storage.postgres.json_values import to_json
from storage.postgres.pool import open_pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.errors import log_failure
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.span_exporter import SpanExporter

log = structlog.get_logger()

NICENESS = 10  # requests come first on a machine that is full


def main() -> None:
    os.nice(NICENESS)
    settings: ExportSettings = pickle.load(sys.stdin.buffer)  # noqa: S301 -- the service has written it
    configure_logging(settings.log)
    structlog.contextvars.bind_contextvars(**settings.context)
    try:
        asyncio.run(_export(settings))
    except StorageError as error:
        log_failure(log, "spans not exported", error)
        sys.exit(1)


async def _export(settings: ExportSettings) -> None:
    clock, lines = SystemClock(), asyncio.Queue[bytes]()
    Thread(target=_read, args=(asyncio.get_running_loop(), lines), daemon=True).start()
    async with (
        open_pool(settings.database, node=None) as pool,
        open_otlp_receiver(settings.receiver, clock) as post,
    ):
        storage = Storage(pool, on_commit=lambda _: None, sleep=clock.sleep)
        of_runs = settings.receiver.resource, settings.after, settings.has_content
        exporter = SpanExporter(storage, post, clock, *of_runs)

        async def answer_next() -> None:
            moment, level = (await lines.get()).decode().split()
            logging.getLogger().setLevel(int(level))
            now = datetime.fromisoformat(moment)
            clock.correct((now - SystemClock().now()).total_seconds())
            try:
                await exporter.run_once()
            finally:
                counts = storage.instance.span_exports
                sys.stdout.buffer.write(to_json(counts) + b"\n")
                sys.stdout.buffer.flush()
                counts.clear()

        await repeat("span export", answer_next, 0, clock)


def _read(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    os._exit(0)


if __name__ == "__main__":
    main()
