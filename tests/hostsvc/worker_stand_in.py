"""A service of two workers that serve nothing but their names, to observe their parent: run as a module.

The behaviour is "serve"; "slow", which ends only when it is hurried; "hung up", with an early SIGHUP; or
"refuse", which ends at once.
"""

import asyncio
import os
import signal
import sys

from aiohttp import web

from hostsvc.config import Config, NodeSettings, ServerSettings
from hostsvc.listeners import open_listeners
from hostsvc.logs import LogSettings, configure_logging
from hostsvc.process_end import end_on_signals
from hostsvc.workers import Worker, fork_workers
from web.server.listener import serving


def print_line(*words: object) -> None:
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())  # in one piece


async def serve(worker: Worker) -> None:
    """Print what happens until the end is requested."""
    end = end_on_signals(worker.parent)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"name": worker.config.node.name, "pid": os.getpid()})

    app = web.Application()
    app.router.add_get("/", answer)
    with open_listeners(worker.config, worker.listener) as listeners:
        async with serving(app, *listeners.sockets):
            print_line("serves", worker.config.node.name, os.getpid(), listeners.node_url)
            worker.report_ready(listeners.url)
            await end.requested.wait()
            print_line("requested", worker.config.node.name)
            if behaviour == "slow":
                await end.hurried.wait()
                print_line("hurried", worker.config.node.name)


behaviour = sys.argv[1]
configure_logging(LogSettings(format="json"))
own = fork_workers(
    Config(server=ServerSettings(port=0), node=NodeSettings(name="m", workers=2)),
    lambda url: print_line("ready", url),
)
if behaviour == "refuse":
    print_line("refused", own.config.node.name)
    sys.exit(2)
if behaviour == "hung up":
    os.kill(os.getpid(), signal.SIGHUP)
asyncio.run(serve(own))
own.close()
