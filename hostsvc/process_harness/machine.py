"""What this machine offers to runs: programs, a user, bubblewrap and control groups.

`choose_containment` tries the sandbox when the service starts, and `check-config` says what it would choose.
"""

import asyncio
import os
import pwd
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hostsvc.process_harness.cache import TRAVERSE_ONLY, HarnessRefused, make_folder
from hostsvc.process_harness.git import PROGRAMS, GitFailed, Mirror, address_of
from hostsvc.process_harness.process import open_process
from hostsvc.process_harness.sandbox import RUN_GROUP, Containment, ProcessSpec, UnixUser
from hostsvc.process_harness.settings import HarnessSettings, Network

TRUSTED = "the agents' code runs as the user of this service and must be trusted; otherwise set harness.user"
NOT_CONTAINED = "nothing contains runs: what they start can outlive them and reach the files of others"
GROUPS = "control groups limit the memory of all its processes together"
NO_GROUPS = (
    "harness.limits.memory_mb applies to each of its processes, as the service has no control group with the "
    "controllers memory and pids (systemd: Delegate=yes)"
)
NOT_INSTALLED = "bubblewrap is not installed: install it, for example with apt-get install bubblewrap"
NEEDS_USER = "the service runs as root, and runs must not: set harness.user"
ALLOW = (
    "allow user namespaces to everybody: sysctl user.max_user_namespaces must not be 0, "
    "kernel.unprivileged_userns_clone must be 1 and kernel.apparmor_restrict_unprivileged_userns 0 if they "
    "exist, and a container needs a runtime that allows them"
)
TRIAL_SECONDS = 10.0

CONTROLLERS = frozenset({"memory", "pids"})
MOUNT = Path("/sys/fs/cgroup")
OWN_LEAF = "service"  # the control group that this service moves to, as only leaves may have processes


def machine_errors(settings: HarnessSettings, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each thing that this machine lacks, whatever contains the runs."""
    if sys.platform != "linux":
        yield 'harness.kind "process" needs Linux'
    network_programs = ["nsenter"] if settings.network == "service" else []
    for program in (*PROGRAMS, "sh", "setpriv", "prlimit", *network_programs):
        if shutil.which(program, path=environment.get("PATH")) is None:
            yield f'{program} is not on the PATH: install it, or set harness.kind to "builtin"'


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


def look_up_user(settings: HarnessSettings, cache: Path) -> UnixUser:
    """Return the user that runs the code. Raise HarnessRefused if it cannot, or cannot enter the cache."""
    name = settings.user
    if not name:
        return UnixUser()
    if os.geteuid() != 0:
        raise HarnessRefused("only root can run code as another user: start as root, or unset harness.user")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise HarnessRefused(f"there is no user {name}: create it, or correct harness.user") from None
    if entry.pw_uid == 0:
        raise HarnessRefused(f"{name} is root, and runs must not be: set harness.user to another user")
    groups = os.getgrouplist(name, entry.pw_gid)
    for directory in (cache, *cache.parents):
        if not _can_enter(entry.pw_uid, groups, directory.stat()):
            raise HarnessRefused(f"{name} cannot enter {directory}: set another harness.cache_dir")
    return UnixUser(name, entry.pw_uid, entry.pw_gid)


def _can_enter(uid: int, groups: list[int], directory: os.stat_result) -> bool:
    if directory.st_uid == uid:
        return bool(directory.st_mode & 0o100)
    return bool(directory.st_mode & (0o010 if directory.st_gid in groups else 0o001))


async def choose_containment(
    settings: HarnessSettings, user: UnixUser, environment: Mapping[str, str]
) -> Containment:
    """Return the configured containment; "auto" is bubblewrap where it works.

    Raise HarnessRefused if the configured one, or the configured network, is impossible.
    """
    reason = 'harness.containment is "none"'
    if settings.containment != "none":
        reason = await sandbox_error(settings.network, user, environment)
        if not reason:
            return Containment("bubblewrap", settings.network, delegated_group())
    if settings.network != "full":
        raise HarnessRefused(f'harness.network "{settings.network}" needs bubblewrap: {reason}')
    if settings.containment == "bubblewrap":
        raise HarnessRefused(f'{reason}; or set harness.containment to "none" if you trust all agents')
    return Containment("none", reason=reason)


async def contain_here(settings: HarnessSettings, environment: Mapping[str, str]) -> Containment:
    """Return what would contain the runs of a service on this machine. Raise HarnessRefused."""
    user = look_up_user(settings, Path("/"))
    return await choose_containment(settings, user, environment)


def describe_containment(containment: Containment) -> str:
    """Describe what contains runs on this machine, and what would contain them better."""
    if containment.kind == "none":
        return f"{NOT_CONTAINED} ({containment.reason})"
    return f"bubblewrap contains each run; {GROUPS if containment.groups else NO_GROUPS}"


async def sandbox_error(network: Network, user: UnixUser, environment: Mapping[str, str]) -> str:
    """Return why bubblewrap cannot contain runs on this machine and what to do, or a blank."""
    if shutil.which("bwrap", path=environment.get("PATH")) is None:
        return NOT_INSTALLED
    if os.geteuid() == 0 and not user.name:
        return NEEDS_USER
    with TemporaryDirectory(prefix="hostsvc-check-") as directory:
        spec = _trial(Path(directory), network, user, environment)
        async with open_process(spec) as process:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.ended.wait(), TRIAL_SECONDS)
            failure = (await process.kill()).describe(spec.limits)
    return f"bubblewrap does not work here ({failure}): {ALLOW}" if failure else ""


def _trial(cache: Path, network: Network, user: UnixUser, environment: Mapping[str, str]) -> ProcessSpec:
    """Return a process that does nothing, to try the containment."""
    cache.chmod(TRAVERSE_ONLY)
    checkout = cache / "checkout"
    checkout.mkdir()
    return ProcessSpec(
        command=("true",),
        directory=checkout,
        cache=cache,
        folder=make_folder(cache / "run", user.owner),
        environment={"PATH": environment.get("PATH", os.defpath)},
        input="",
        containment=Containment("bubblewrap", network),
        user=user,
    )


def delegated_group() -> Path | None:
    """Return the control group of this service if it may limit runs in groups of their own below it."""
    own = _own_group()
    try:
        if own is None or not os.access(own, os.W_OK):
            return None
        controllers = (own / "cgroup.controllers").read_text().split()
    except OSError:
        return None
    return own if set(controllers) >= CONTROLLERS else None


def prepare_group(own: Path, left: Iterable[str] = ()) -> None:
    """Let the groups below limit runs, and remove those of runs that a killed service left. Raise OSError.

    The other groups may belong to runs of other workers.
    """
    enabled = set((own / "cgroup.subtree_control").read_text().split())
    if not enabled >= CONTROLLERS:
        if (own / "cgroup.type").exists():  # the root of all groups has none, and may keep its processes
            (own / OWN_LEAF).mkdir(exist_ok=True)
            (own / OWN_LEAF / "cgroup.procs").write_text(str(os.getpid()))
        (own / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
    for run in left:
        with suppress(OSError):
            (own / f"{RUN_GROUP}{run}").rmdir()


def _own_group() -> Path | None:
    """Return the directory of the cgroup v2 of this service, or of the one above its leaf."""
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    path = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), None)
    if path is None:
        return None
    own = MOUNT / path
    return own.parent if own.name == OWN_LEAF else own
