"""The requirements of the process harness that can be checked without starting anything."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.git import PROGRAMS, GitFailed, Mirror, address_of
from hostsvc.process_harness.settings import HarnessSettings
from hostsvc.process_harness.users import look_up_users


def machine_errors(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each thing that this machine lacks."""
    if sys.platform != "linux":
        yield 'harness.kind "process" needs Linux'
    for program in PROGRAMS:
        if shutil.which(program, path=environment.get("PATH")) is None:
            yield f'{program} is not on the PATH: install it, or set harness.kind to "builtin"'


def user_error(settings: HarnessSettings, max_runs: int, existing: Path) -> str | None:
    """Return why the configured users cannot run code below the directory `existing`, or None."""
    try:
        look_up_users(settings, existing, max_runs)
    except HarnessRefused as error:
        return str(error)
    return None


async def repository_error(settings: HarnessSettings, environment: Mapping[str, str]) -> str | None:
    """Return why nothing can be fetched from the repository, or None. It may take `git_timeout_seconds`."""
    address = address_of(settings.repository)
    with TemporaryDirectory(prefix="hostsvc-check-") as directory:
        home = Path(directory)
        mirror = Mirror(address, home / "mirror.git", home, settings.git_timeout_seconds, environment)
        try:
            await mirror.prepare()
            await mirror.require_reachable()
        except GitFailed as error:
            return f"harness.repository cannot be fetched: {error}"
    return None
