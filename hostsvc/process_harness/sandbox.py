"""What surrounds the command of a run: a bubblewrap sandbox with limits, or the limits alone.

Small programs of util-linux prepare it, each of which becomes the next one: `setpriv` drops the privileges
of root, `prlimit` sets the limits. The sandbox shows the file system of the machine read-only, without the
files of other runs and with a /tmp and a /dev/shm of its own, and no processes but its own.
"""

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from hostsvc.process_harness.settings import ContainmentKind, Network, RunLimits

MEGABYTE = 1_048_576
RUN_GROUP = "run-"  # begins the names of the control groups of runs
INIT_PROCESSES = 1  # of bubblewrap in the namespace of a run
SANDBOX_PROCESSES = 2  # of bubblewrap in the control group of a run

# The first to be killed when the machine has no memory left; then enter the control group, if there is one.
PREPARE = 'echo 1000 >/proc/self/oom_score_adj; [ -z "$0" ] || echo 0 >"$0/cgroup.procs" || exit; exec "$@"'


@dataclass(frozen=True, slots=True)
class UnixUser:
    """The operating-system user that a process runs as; without a name the user of the service."""

    name: str = ""
    uid: int = -1
    gid: int = -1

    @property
    def owner(self) -> tuple[int, int] | None:
        return (self.uid, self.gid) if self.name else None

    @property
    def options(self) -> list[str]:
        """Return the options of setpriv that make a process one of this user."""
        return [f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups"] if self.name else []


@dataclass(frozen=True, slots=True)
class Containment:
    """What contains runs, what network they have, and the control group above theirs, if there is one.

    `reason` says why nothing contains them.
    """

    kind: ContainmentKind
    network: Network = "full"
    groups: Path | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The command of a run: its directories, environment, input, user, limits, and what contains it.

    `folder` is for this process alone and contains its `home` and, in a sandbox, its /tmp and /dev/shm. Of
    the directory `cache` a sandbox shows only the folder and `directory`, in which the command starts.
    `service` is the address that a process without a network reaches.
    """

    command: Sequence[str]
    directory: Path
    cache: Path
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    input: str = field(repr=False)
    containment: Containment
    user: UnixUser = UnixUser()
    limits: RunLimits = field(default_factory=RunLimits)
    service: tuple[str, int] = ("127.0.0.1", 8080)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def marks(self) -> Mapping[str, str]:
        """Return the environment of bwrap: the PATH, and the HOME by which it can be found."""
        return {"PATH": self.environment["PATH"], "HOME": str(self.home)}


def make_group(spec: ProcessSpec) -> Path | None:
    """Create the control group (cgroup v2) of a run: the kernel limits all its processes together.

    Return None if runs have none.
    """
    if spec.containment.groups is None:
        return None
    group = spec.containment.groups / f"{RUN_GROUP}{spec.folder.name}"
    group.mkdir()
    if spec.limits.processes:
        (group / "pids.max").write_text(str(spec.limits.processes + SANDBOX_PROCESSES))
    if spec.limits.memory_mb:
        (group / "memory.max").write_text(str(spec.limits.memory_mb * MEGABYTE))
        (group / "memory.oom.group").write_text("1")
    return group


def has_run_out_of_memory(group: Path) -> bool:
    """Return whether the kernel has killed a run for its use of memory."""
    return "oom_kill 0" not in (group / "memory.events").read_text().splitlines()


def command_line(spec: ProcessSpec, descriptors: Mapping[str, int], group: Path | None) -> list[str]:
    """Return the command line of a run; `descriptors` are values of options of bwrap, if that contains it.

    In a sandbox it is started with `spec.marks`: no program outside of it sees the environment of the run.
    """
    options = chain.from_iterable((option, str(number)) for option, number in descriptors.items())
    if spec.containment.kind == "bubblewrap":
        around = [*_drop(spec.user.options), "bwrap", *options, "--"]
    else:  # a program that gains privileges could not be killed, and a guardian may not find this one
        around = _drop(["--no-new-privs", "--pdeathsig=KILL", *spec.user.options])
    entered = str(group) if group else ""
    return ["sh", "-c", PREPARE, entered, *around, *_limits(spec, has_group=group is not None), *spec.command]


def _drop(options: list[str]) -> list[str]:
    return ["setpriv", *options, "--"] if options else []


def sandbox_options(spec: ProcessSpec) -> bytes:
    """Return what bwrap reads with its option --args: arguments could be seen by everybody."""
    cache, home, directory = str(spec.cache), str(spec.home), str(spec.directory)
    options = (
        ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
        ("--unshare-net",) if spec.containment.network == "service" else (),
        ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # Not in memory, which nothing else limits without a control group.
        ("--bind", f"{spec.folder}/shm", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
        ("--bind", f"{spec.folder}/tmp", "/tmp"),  # noqa: S108
        ("--tmpfs", cache, "--ro-bind", directory, directory, "--bind", home, home, "--remount-ro", cache),
        ("--chdir", directory, "--clearenv"),
        *(("--setenv", name, value) for name, value in spec.environment.items()),
    )
    return b"".join(option.encode() + b"\0" for option in chain.from_iterable(options))


def _limits(spec: ProcessSpec, *, has_group: bool) -> list[str]:
    """Return the beginning of a command line, which sets the limits of each process for the rest of it."""
    limits, is_contained = spec.limits, spec.containment.kind == "bubblewrap"
    memory = 0 if has_group else limits.memory_mb * MEGABYTE
    # In namespaces of its own the kernel counts the processes of this run alone.
    processes = limits.processes + INIT_PROCESSES if limits.processes and is_contained else 0
    chosen = (
        ("fsize", resource.RLIMIT_FSIZE, limits.file_mb * MEGABYTE),
        ("nofile", resource.RLIMIT_NOFILE, limits.open_files),
        ("data", resource.RLIMIT_DATA, memory),
        ("nproc", resource.RLIMIT_NPROC, processes),
    )
    options = [f"--{name}={_allowed(kind, limit)}" for name, kind, limit in chosen if limit]
    if limits.cpu_seconds:  # first SIGXCPU, which names the limit, then SIGKILL
        options.append(f"--cpu={limits.cpu_seconds}:{limits.cpu_seconds + 1}")
    return ["prlimit", "--core=0", *options, "--"]


def _allowed(kind: int, limit: int) -> int:
    """Return the limit, lowered to the one of this service: only root could raise that."""
    _, hard = resource.getrlimit(kind)
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
