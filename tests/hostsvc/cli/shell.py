"""Runs commands of `hostsvc`: in this process for an exit code and output, or as a process of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from hostsvc.cli.commands import main
from tests.forked_processes import ForkedCommand, ForkServer

Process = subprocess.Popen[str]

INHERITED_VARIABLES = ("PATH", "HOME", "TMPDIR")


@dataclass(frozen=True)
class Finished:
    """The exit code and the output of a finished command."""

    code: int
    out: str
    err: str


def hostsvc(directory: Path, *arguments: str, **environment: str) -> Finished:
    """Run a command in this process, with `directory` as the working directory."""
    with chdir(directory):
        result = CliRunner().invoke(main, arguments, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Finished(result.exit_code, result.stdout, result.stderr)


@dataclass(frozen=True)
class Shell:
    """Starts `hostsvc` as a process in a directory, forked by the server if there is one."""

    fork_server: ForkServer | None

    def start(
        self, directory: Path, *arguments: str, **environment: str
    ) -> AbstractContextManager[Process | ForkedCommand]:
        """Start a process, which is killed at the end of the block."""
        if self.fork_server is None:
            return started(directory, *arguments, **environment)
        return self.fork_server.start(arguments, directory, inherited() | environment)


@contextmanager
def started(directory: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    """Start `python -m hostsvc` as a process, and kill it at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "hostsvc", *arguments],
        cwd=directory,
        env=inherited() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}


def first_line(process: Process | ForkedCommand) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip()


def finished(process: Process | ForkedCommand) -> Finished:
    out, err = process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, out, err)


def refusal(done: Finished) -> str:
    """Return the reason of a refused command, which is its one line, or the last one of a service's log."""
    assert done.code == 2, done
    assert done.out == "", done
    return reason_of(done.err)


def reason_of(err: str) -> str:
    """Return the reason that a refused command has written, as one line of text or in its log."""
    first, *others = err.splitlines()
    if not others and first.startswith("hostsvc: "):
        return first.removeprefix("hostsvc: ")
    last = [json.loads(line) for line in (first, *others)][-1]
    assert (last["event"], last["level"]) == ("service refused", "error")
    return str(last["reason"])
