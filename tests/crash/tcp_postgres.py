"""A PostgreSQL server that listens on TCP, as one on another machine does, and that a test may stop."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from time import sleep

from tests.crash.faults import OwnPostgres, stopped_with_children
from tests.crash.replication import owner_of, program

ORPHAN_ATTEMPTS = 100  # processes of a killed server keep its memory until they notice
ORPHAN_PAUSE_SECONDS = 0.1


class TcpPostgres:
    """A server on a port of its own. All methods block."""

    def __init__(self, data_dir: Path) -> None:
        OwnPostgres(data_dir).stop()  # creates the files
        self._cluster = data_dir / "postgres"
        with create_server(("127.0.0.1", 0)) as unused:
            self.address = f"127.0.0.1:{unused.getsockname()[1]}"
        self.url = f"postgresql://postgres@{self.address}/postgres"
        self.start()

    def start(self) -> None:
        host, port = self.address.split(":")
        settings = f"-c listen_addresses={host} -c port={port} -c unix_socket_directories="
        arguments = ("-l", str(self._cluster / "postgres.log"), "-o", settings)
        for _ in range(ORPHAN_ATTEMPTS):
            if self._control("start", *arguments) == 0:
                return
            sleep(ORPHAN_PAUSE_SECONDS)
        raise AssertionError((self._cluster / "postgres.log").read_text())

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def kill(self) -> None:
        """Kill the postmaster only; the processes that it has started notice by themselves."""
        os.kill(self._pid(), signal.SIGKILL)

    @contextmanager
    def away(self, way: str) -> Iterator[None]:
        """Take the server away while the block lasts: stop it in a mode of pg_ctl, "kill" or "suspend" it."""
        if way == "suspend":
            with stopped_with_children(self._pid()):
                yield
            return
        if way == "kill":
            self.kill()
        else:
            self.stop(way)
        yield
        self.start()

    def _pid(self) -> int:
        return int((self._cluster / "postmaster.pid").read_text().splitlines()[0])

    def _control(self, action: str, *arguments: str) -> int:
        command = [program("pg_ctl"), action, "-D", str(self._cluster), *arguments]
        quiet = subprocess.DEVNULL
        owner = owner_of(self._cluster)
        return subprocess.run(command, cwd=self._cluster, stdout=quiet, stderr=quiet, **owner).returncode
