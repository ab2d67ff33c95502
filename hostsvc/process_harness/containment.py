"""What contains the processes of a run on this machine: chosen at the start, by trying it."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import structlog

from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.keeper.containment import live_users
from hostsvc.process_harness.kept_process import ProcessSpec, clean, enter
from hostsvc.process_harness.settings import ContainmentKind, HarnessSettings, Network
from hostsvc.process_harness.users import RunUsers, UnixUser

log = structlog.get_logger()

MOUNTS, OWN_GROUP = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
CONTROLLERS = frozenset({"memory", "pids"})
OWN_LEAF = "service"  # the control group that this service moves to, as only leaves may have processes
NEEDS_USER = "it needs harness.user, as code of the service's own user could leave its control group"
NEEDS_IDS = "it needs harness.first_user_id, the first of a range of unused user ids"
NO_CONTROL_GROUPS = "no cgroup v2 of this service is writable and has cgroup.kill (systemd: Delegate=yes)"
NO_CONTROLLERS = (
    f"the control group of this service has no controllers for {' and '.join(sorted(CONTROLLERS))}"
)
NOT_CONTAINED = (
    "this machine offers nothing that contains a run: processes of the agents' code can outlive their run; "
    "docs/harness.md says what to set up, harness.containment says what was chosen"
)


@dataclass(frozen=True, slots=True)
class Containment:
    """What contains a run: `groups` is the directory of control groups, `new_user` adds a user namespace."""

    kind: ContainmentKind
    groups: Path | None = None
    new_user: bool = False
    has_own_user: bool = False
    network: Network = "full"

    def apply(self, spec: ProcessSpec, run_id: UUID) -> ProcessSpec:
        """Return the specification of a process in a containment of this kind.

        If it cuts off the network, the specification must name the address of the service.
        """
        return replace(
            spec,
            containment=self.kind,
            cgroup=str(self.groups / str(run_id)) if self.groups else "",
            new_user=self.new_user,
            has_own_user=self.has_own_user,
            service_port=spec.service_port if self.network == "service" else 0,
        )


async def choose_containment(settings: HarnessSettings, users: RunUsers, trial: ProcessSpec) -> Containment:
    """Return the first containment in which the process `trial` works, after it has been cleaned.

    Raise HarnessRefused if the configured one does not work.
    """
    reasons: list[str] = []
    await _clean_users(users, trial)
    for candidate in _candidates(settings, users, _group_name(trial)):
        reason = candidate if isinstance(candidate, str) else await _try(candidate, users, trial)
        if isinstance(candidate, Containment) and not reason:
            if candidate.kind == "none":
                log.warning(NOT_CONTAINED, tried=reasons)
            else:
                log.info("containment of runs chosen", containment=candidate.kind, network=candidate.network)
            return candidate
        reasons.append(reason)
    wanted = f'harness.network "{settings.network}"' if settings.network != "full" else "harness.containment"
    raise HarnessRefused(
        f'{wanted} cannot be had with containment "{settings.containment}": {"; ".join(reasons)}; '
        'set harness.containment = "auto" and harness.network = "full" for what is possible'
    )


def _candidates(settings: HarnessSettings, users: RunUsers, group: str) -> Iterator[Containment | str]:
    """Yield containments in the order of preference, or the reason why one is out of the question."""
    kinds: Sequence[ContainmentKind] = ("cgroup", "namespace", "user", "none")
    is_chosen = settings.containment != "auto"
    kinds = [kind for kind in kinds if kind == settings.containment or not is_chosen]
    if settings.network == "service" and "namespace" not in kinds:
        yield "only namespaces can cut off the network"
    for kind in kinds:
        if settings.network == "service" and kind != "namespace":
            continue
        user = users.users[0]
        if kind == "cgroup":
            yield _control_groups(users, group, needs_controllers=not is_chosen)
        elif kind == "namespace":
            if not user.is_root:
                yield Containment(kind, new_user=True, has_own_user=True, network=settings.network)
            if os.geteuid() == 0:
                yield Containment(kind, has_own_user=not users.shared, network=settings.network)
        elif kind == "user" and users.shared:
            yield NEEDS_IDS
        else:
            yield Containment(kind, has_own_user=not users.shared)


def _control_groups(users: RunUsers, name: str, *, needs_controllers: bool) -> Containment | str:
    user = users.users[0]
    if user.uid is None or user.is_root:
        return NEEDS_USER
    own = own_control_group()
    if own is None:
        return NO_CONTROL_GROUPS
    with suppress(OSError):
        _enable_controllers(own)
    enabled = frozenset((own / "cgroup.subtree_control").read_text().split())
    if needs_controllers and not enabled >= CONTROLLERS:
        return NO_CONTROLLERS
    return Containment("cgroup", own / name, has_own_user=not users.shared)


def _group_name(trial: ProcessSpec) -> str:
    """Return a name that no other service uses: the directory of the trial is in the cache of this one."""
    return f"hostsvc-{hashlib.sha256(trial.home.encode()).hexdigest()[:16]}"


def own_control_group() -> Path | None:
    """Return the directory of this process's cgroup v2 if it may create groups in it that can be killed."""
    root = next(
        (
            Path(fields[4])
            for fields in map(str.split, MOUNTS.read_text().splitlines())
            if "cgroup2" in fields
        ),
        None,
    )
    path = next((line[3:] for line in OWN_GROUP.read_text().splitlines() if line.startswith("0::")), None)
    if root is None or path is None:
        return None
    own = root / path.lstrip("/")
    own = own.parent if own.name == OWN_LEAF else own
    probe = own / f"hostsvc-probe-{os.getpid()}"
    try:
        probe.mkdir()
        can_kill = (probe / "cgroup.kill").exists()
        probe.rmdir()
    except OSError:
        return None
    return own if can_kill else None


def _enable_controllers(own: Path) -> None:
    """Let the groups below have controllers. Raise OSError if another process is in this group, too."""
    wanted = CONTROLLERS & set((own / "cgroup.controllers").read_text().split())
    if not wanted <= set((own / "cgroup.subtree_control").read_text().split()):
        if (own / "cgroup.type").exists():  # the root of all groups has none, and may keep its processes
            (own / OWN_LEAF).mkdir(exist_ok=True)
            (own / OWN_LEAF / "cgroup.procs").write_text(str(os.getpid()))
        (own / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))


async def _try(containment: Containment, users: RunUsers, trial: ProcessSpec) -> str:
    """Try the containment, and kill what a killed service left in it. Return an error or a blank."""
    if containment.groups:
        try:
            containment.groups.mkdir(exist_ok=True)
        except OSError as error:
            return f"cgroup: {error.strerror}"
        for group in [path for path in containment.groups.iterdir() if path.is_dir()]:
            await clean(replace(trial, containment="cgroup", cgroup=str(group)))
    end = await enter(_as_user(containment.apply(trial, UUID(int=0)), users.users[0]))
    if end.code != 0:
        return f"{containment.kind}: {end.error or 'the keeper failed; its message is in the log'}"
    return ""


async def _clean_users(users: RunUsers, trial: ProcessSpec) -> None:
    """Kill the processes that a killed service left to the users of single runs."""
    if not users.shared:
        left = live_users()
        for user in users.users:
            if user.uid in left:
                await clean(_as_user(replace(trial, containment="user"), user))


def _as_user(spec: ProcessSpec, user: UnixUser) -> ProcessSpec:
    return replace(spec, uid=user.uid, gid=user.gid, groups=user.groups)
