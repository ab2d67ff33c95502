"""Run schemathesis on the served document against a running service: `python -m tests.contract.fuzz`.

Takes the options of `st run`; `make fuzz` gives it ten minutes. It prints what it finds, with the seed.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import aiohttp

from tests.acceptance.client import Client
from tests.acceptance.process import Sections, serving
from tests.nodes import NODES
from tests.paths import ROOT

CONFIG = Path(__file__).with_name("schemathesis.toml")
OPERATOR_TOKEN = "operator-token-of-the-fuzzer"


async def fuzz(
    directory: Path,
    database: Mapping[str, str],
    arguments: Sequence[str],
    *,
    is_short: bool = False,
    output: IO[str] | None = None,
) -> int:
    """Return the exit code of `st run`, 0 if it found nothing. It prints to `output`, by default to stdout.

    A short run sends bodies as JSON only, and email addresses that are quick to generate.
    """
    sections: Sections = {
        "server": {"port": 0, "trusted_proxies": ["127.0.0.1/32"]},
        "database": database,
        "operator": {"token": OPERATOR_TOKEN},
        "limits": {"anonymous_requests_per_minute": 0},  # the fuzzer sends thousands of bad credentials
    }
    workers = ("--workers", str(NODES))
    async with (
        serving(directory, "service", sections, options=workers) as process,
        aiohttp.ClientSession() as session,
    ):
        account = await Client(session, process.url).post(
            "/api/organizations/auth/signup/",
            email="fuzz@example.org",
            password="correct horse",
            organization_name="Fuzz",
        )
        variables = {
            "HOSTSVC_URL": process.url,
            "HOSTSVC_USER_TOKEN": account["token"],
            "HOSTSVC_OPERATOR_TOKEN": OPERATOR_TOKEN,
        }
        if is_short:
            variables["HOSTSVC_SHORT_FUZZ"] = "yes"
        tester = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
            *("run", f"{process.url}/api/schema/", *arguments),
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
        return await tester.wait()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hostsvc-fuzz-") as directory:
        code = asyncio.run(fuzz(Path(directory), {"data_dir": f"{directory}/postgres"}, sys.argv[1:]))
    raise SystemExit(code)


if __name__ == "__main__":
    main()
