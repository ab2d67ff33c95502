"""Start the services of one test, and make sure that none outlives it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.postgres.membership import FOUND_DEAD
from tests.acceptance.process import Launch, ServiceProcess, launch_fresh, spawn
from tests.leaks import contents, refuse_secrets

OPERATOR_TOKEN = "operators-only"
DEAD = "was found dead, or is not known"  # why a node cannot store the usage of a call that it had begun


class Services:
    """Processes of the service that share one database."""

    def __init__(self, directory: Path, database: Mapping[str, Any], launch: Launch = launch_fresh) -> None:
        self.directory = directory
        self.database = database
        self._launch = launch
        self._started: list[ServiceProcess] = []

    async def spawn(self, *options: str, **sections: Mapping[str, Any]) -> ServiceProcess:
        """Start a process, with these options of `serve`, without waiting for anything."""
        config = {
            "server": {"port": 0, **sections.pop("server", {})},
            "database": {**self.database, **sections.pop("database", {})},
            "operator": {"token": OPERATOR_TOKEN},
            **sections,
        }
        name = f"service-{len(self._started) + 1}"
        process = await spawn(self.directory, name, config, self._launch, options)
        self._started.append(process)
        return process

    async def start(self, **sections: Mapping[str, Any]) -> ServiceProcess:
        """Start a service and wait until it listens."""
        process = await self.spawn(**sections)
        await process.ready()
        return process

    def crashes(self) -> list[str]:
        """Return what the services have logged as errors, except that others have found them dead."""
        lines = (line for process in self._started for line in process.log().splitlines())
        return [
            line
            for line in lines
            if '"level":"error"' in line
            and '"storage.postgres.membership"' not in line
            and FOUND_DEAD not in line
            and DEAD not in line
        ]

    async def end(self) -> None:
        """End what still runs."""
        for process in self._started:
            await process.close()

    async def close(self) -> None:
        """End what still runs, and check that neither logs nor database have a secret in them."""
        await self.end()
        for process in self._started:
            refuse_secrets("the log", process.log())
        if self._started and "url" in self.database:
            refuse_secrets("the database", contents(self.database["url"]))
