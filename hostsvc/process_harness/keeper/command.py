"""Starts the command of a run: drops privileges, sets limits, and reports why it could not start."""

import errno
import os
import signal
from typing import Any, NoReturn

from hostsvc.process_harness.keeper import limits
from hostsvc.process_harness.keeper.containment import Containment
from hostsvc.process_harness.keeper.linux import (
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    prctl,
)

IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by the keeper: meant for the service
RESET_SIGNALS = (*IGNORED_SIGNALS, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ)
OUT_OF_MEMORY_SCORE = "1000"  # the first to be killed when the machine has no memory left


def start_command(spec: dict[str, Any], containment: Containment, output: int) -> tuple[int, str]:
    """Start the command as the leader of a new group. Return its process id, and an error or a blank.

    An empty command ends at once; it shows whether processes can be started in the containment.
    """
    error_reader, error_writer = os.pipe()
    stdin = _unlinked_file(spec["home"], spec["input"].encode()) if spec["command"] else os.dup(0)
    keeper, leader = os.getpid(), os.fork()
    if leader == 0:
        _become_command(spec, containment, (stdin, output, error_writer), keeper)
    os.close(error_writer)
    os.close(stdin)
    with open(error_reader, "rb") as errors:
        return leader, errors.read().decode()


def _unlinked_file(directory: str, content: bytes) -> int:
    """Return a file without a name that contains the content: unlike a pipe it never blocks the writer."""
    path = os.path.join(directory, ".input")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _become_command(
    spec: dict[str, Any], containment: Containment, files: tuple[int, int, int], keeper: int
) -> NoReturn:
    """Drop privileges and execute the command in this process; write an error to the last file."""
    stdin, output, error_writer = files
    try:
        os.setsid()
        for number in RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for source, target in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.get_exec_path()  # imports the modules that execvpe needs while this user can still read them
        containment.enter()
        _be_killed_first()
        limits.apply_to_process(spec["limits"])
        _become_user(spec)
        prctl(PR_SET_NO_NEW_PRIVS, 1)  # a program of another user could leave the containment
        if spec["has_own_user"]:
            limits.apply_to_user(spec["limits"])
        os.chdir(spec["directory"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper and spec["command"]:  # else it died before PR_SET_PDEATHSIG took effect
            _execute(spec["command"], spec["environment"])
        os._exit(0)
    except Exception as error:  # the outermost edge of this process
        os.write(error_writer, str(error.strerror if isinstance(error, OSError) else error).encode())
    finally:
        os._exit(127)


def _be_killed_first() -> None:
    prctl(PR_SET_DUMPABLE, 1)  # or this file would belong to root
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write(OUT_OF_MEMORY_SCORE)


def _become_user(spec: dict[str, Any]) -> None:
    if spec["uid"] is not None:
        os.setgroups(spec["groups"])
        os.setgid(spec["gid"])
        os.setuid(spec["uid"])


def _execute(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Execute the command. Raise FileNotFoundError if it is not on the PATH, readable or not."""
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606
    except PermissionError:
        places = [""] if "/" in command[0] else os.get_exec_path(environment)
        if any(os.path.exists(os.path.join(place, command[0])) for place in places):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
