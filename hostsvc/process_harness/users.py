"""The operating-system users that runs execute as: one for all of them, or one for each."""

import os
import pwd
from asyncio import Queue
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.settings import HarnessSettings

TRUSTED = "the agents' code runs as the user of this service and must be trusted; otherwise set harness.user"


@dataclass(frozen=True, slots=True)
class UnixUser:
    """The operating-system user that a process runs as; without ids the user of the service."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()

    @property
    def owner(self) -> tuple[int, int] | None:
        return None if self.uid is None or self.gid is None else (self.uid, self.gid)

    @property
    def is_root(self) -> bool:
        return (os.geteuid() if self.uid is None else self.uid) == 0


class RunUsers:
    """Lends users to runs; `look_up_users` creates it."""

    def __init__(self, users: tuple[UnixUser, ...], *, shared: bool) -> None:
        self.users = users
        self.shared = shared
        self._free: Queue[UnixUser] = Queue()
        for user in users:
            self._free.put_nowait(user)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[UnixUser]:
        """Yield a user, which no other run has before the block ends unless all of them share it.

        Wait while more processes are about to end than there are users.
        """
        if self.shared:
            yield self.users[0]
            return
        user = await self._free.get()
        try:
            yield user
        finally:
            self._free.put_nowait(user)


def look_up_users(settings: HarnessSettings, cache: Path, count: int) -> RunUsers:
    """Return the users that run the code. Raise HarnessRefused if they cannot, or cannot enter the cache."""
    if not settings.user and not settings.first_user_id:
        return RunUsers((UnixUser(),), shared=True)
    if settings.user and settings.first_user_id:
        raise HarnessRefused("harness.user and harness.first_user_id exclude each other: unset one of them")
    if os.geteuid() != 0:
        key = "harness.user" if settings.user else "harness.first_user_id"
        raise HarnessRefused(f"only root can run code as another user: start as root, or unset {key}")
    if settings.user:
        user = _look_up_user(settings.user)
        _require_entry(settings.user, user, cache)
        return RunUsers((user,), shared=True)
    ids = range(settings.first_user_id, settings.first_user_id + count)
    users = tuple(UnixUser(id_, id_) for id_ in ids)
    _require_unused(ids)
    _require_entry(f"user {ids[0]}", users[0], cache)
    return RunUsers(users, shared=False)


def _look_up_user(name: str) -> UnixUser:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise HarnessRefused(f"there is no user {name}: create it, or correct harness.user") from None
    return UnixUser(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))


def _require_unused(ids: range) -> None:
    for entry in pwd.getpwall():
        if entry.pw_uid in ids:
            raise HarnessRefused(
                f"user id {entry.pw_uid} belongs to {entry.pw_name}: set harness.first_user_id to the first "
                f"of {len(ids)} (runs.max_concurrent) ids that nobody has"
            )


def _require_entry(name: str, user: UnixUser, cache: Path) -> None:
    for directory in (cache, *cache.parents):
        if not _can_enter(user, directory.stat()):
            raise HarnessRefused(f"{name} cannot enter {directory}: set another harness.cache_dir")


def _can_enter(user: UnixUser, directory: os.stat_result) -> bool:
    if directory.st_uid == user.uid:
        return bool(directory.st_mode & 0o100)
    return bool(directory.st_mode & (0o010 if directory.st_gid in user.groups else 0o001))
