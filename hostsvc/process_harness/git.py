"""git, on a mirror of the one repository that the harness comes from. Nobody's configuration but ours counts.

GitError
├── GitFailed       a command failed or took too long; the message is git's, without credentials
└── NoSuchRef       nothing in the repository has this name; the message is for whoever chose it
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from hostsvc.process_harness.directory_trees import files_below

log = structlog.get_logger()

PROGRAMS = ("git", "timeout")  # which have to be on the PATH
AT_ONCE = 4
CLEAN_UP_SECONDS = 2.0  # in which git removes its lock files
TIDY_SECONDS = 3600.0
DEFAULT_REF = "main"
FETCH_OPTIONS = (
    *("--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"),
    "--no-auto-maintenance",  # which a run would have to wait for
)

# What git's own rules for names forbid, and all that could be taken for something else than a name.
UNSOUND = re.compile(r"^[-/.]|\.\.|//|/\.|@\{|^@$|\.lock(/|$)|[/.]$|[ ~^:?*\[\\]")
FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
HASH = re.compile(r"[0-9a-fA-F]{7,64}")
PLACES = ("refs/heads/", "refs/tags/")
SHOWN = "%(refname) %(objecttype) %(objectname)"

KEPT_VARIABLES = ("PATH", "SSH_AUTH_SOCK", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
CONFIGURATION = """\
[safe]
\tdirectory = *
[protocol "ext"]
\tallow = never
[core]
\thooksPath = /dev/null
\tfsmonitor = false
[gc]
\tautoDetach = false
"""


class GitError(Exception):
    """The code of a run could not be had."""


class GitFailed(GitError):
    """A git command failed or took too long."""


class NoSuchRef(GitError):
    """Nothing in the repository has this name."""


def require_sound(ref: str) -> None:
    """Raise NoSuchRef unless a branch, a tag or a commit can have this name; git is asked about no other."""
    if not ref.isprintable() or UNSOUND.search(ref):
        raise NoSuchRef(f"{ref!r} cannot be the name of a branch, a tag or a commit")


def is_full_hash(ref: str) -> bool:
    """Whether this names one commit for ever."""
    return FULL_HASH.fullmatch(ref) is not None


def address_of(repository: str) -> str:
    """As git takes it from whatever directory: a path made absolute, a URL or host:path as it is."""
    host, colon, _ = repository.partition(":")
    if colon and "/" not in host and not Path(repository).exists():
        return repository
    return str(Path(repository).expanduser().absolute())


class Mirror:
    """A bare copy of the repository's branches and tags in `directory`; `home` is a directory of ours."""

    def __init__(
        self, repository: str, directory: Path, home: Path, seconds: float, environment: Mapping[str, str]
    ) -> None:
        self._repository = repository
        self._directory = directory
        self._home = home
        self._seconds = seconds
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._is_tidying = False
        self._environment = {name: environment[name] for name in KEPT_VARIABLES if name in environment} | {
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
            # Not on the command line, which everybody on the machine can read.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "remote.origin.url",
            "GIT_CONFIG_VALUE_0": repository,
        }

    def __repr__(self) -> str:
        return f"<Mirror in {self._directory}>"

    async def prepare(self) -> None:
        """Make the mirror where there is none, and free it of what a killed git left behind."""
        await asyncio.to_thread(self._set_up)
        await self._git("init", "--quiet", "--bare", "--template=")

    def _set_up(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        (self._home / "gitconfig").write_text(CONFIGURATION)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what a killed git leaves: its locks, and the objects that it had not received in full."""
        objects = self._directory / "objects"
        for path in files_below(self._directory):
            is_partial = path.name.startswith("tmp_") and path.is_relative_to(objects)
            if is_partial or path.suffix == ".lock":
                path.unlink(missing_ok=True)

    async def fetch(self) -> None:
        """Bring the mirror up to date, one call at a time; raises GitFailed."""
        branches, tags = (f"+{place}*:{place}*" for place in PLACES)
        try:
            await self._git("fetch", *FETCH_OPTIONS, "origin", branches, tags)
        except GitFailed:
            if not self._is_tidying:
                await asyncio.to_thread(self._sweep)
            raise

    async def tidy(self) -> None:
        """Put together what many fetches have left in pieces; git knows when. That may take minutes."""
        if self._is_tidying:
            return
        self._is_tidying = True
        try:
            await self._git("gc", "--auto", "--quiet", seconds=TIDY_SECONDS)
        except GitFailed as error:
            log.warning("the mirror of the repository could not be tidied up", reason=str(error))
        finally:
            self._is_tidying = False

    async def resolve(self, ref: str) -> str:
        """The commit that a branch, a tag, or a commit reachable from one of them is, as last fetched.

        Raises GitError.
        """
        require_sound(ref)
        if is_full_hash(ref):  # that commit, even if a branch is called the same; so does git
            commit = await self._reachable(ref) or await self._named(ref)
        else:
            commit = await self._named(ref) or await self._reachable(ref)
        if commit is None:
            raise NoSuchRef(f'the repository has no branch, tag or commit "{ref}"')
        return commit

    async def write(self, commit: str, directory: Path, index: Path) -> None:
        """Write the commit's files into an empty directory; `index` is a file to be left there."""
        await self._git("read-tree", "--reset", "-u", commit, tree=directory, index=index)

    async def _named(self, ref: str) -> str | None:
        """The commit of a branch, or else of a tag."""
        names = [ref] if ref.startswith(PLACES) else [place + ref for place in PLACES]
        # The patterns find as well what lies below them, as below a directory.
        lines = (await self._git("for-each-ref", f"--format={SHOWN}", *names)).splitlines()
        found = {name: (kind, named) for name, kind, named in (line.split(" ") for line in lines)}
        for name in names:
            kind, named = found.get(name, ("", ""))
            commit = named if kind == "commit" else await self._commit_of(named) if kind == "tag" else None
            if commit is not None:
                return commit
        return None

    async def _reachable(self, ref: str) -> str | None:
        """The commit of this hash, or beginning of one, if a branch or a tag leads to it."""
        commit = await self._commit_of(ref) if HASH.fullmatch(ref) else None
        if commit is None:
            return None
        leads = await self._git("for-each-ref", "--count=1", f"--contains={commit}", *PLACES)
        return commit if leads else None

    async def _commit_of(self, name: str) -> str | None:
        """The commit that an object is, or that a tag, or a tag of a tag, stands for."""
        try:
            return (await self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")).strip()
        except GitFailed:
            return None

    async def _git(
        self,
        *arguments: str,
        tree: Path | None = None,
        index: Path | None = None,
        seconds: float | None = None,
    ) -> str:
        """What git prints; raises GitFailed."""
        seconds = self._seconds if seconds is None else seconds
        paths = [f"--git-dir={self._directory}", *([f"--work-tree={tree}"] if tree else [])]
        environment = self._environment | ({"GIT_INDEX_FILE": str(index)} if index else {})
        async with self._turns:
            try:
                process = await asyncio.create_subprocess_exec(
                    # We end it ourselves; but should the service be killed, it must not go on for ever.
                    *("timeout", "-s", "KILL", str(ceil(seconds + CLEAN_UP_SECONDS))),
                    *("git", *paths, *arguments),
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=PIPE,
                    cwd=tree or self._home,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise GitFailed(f"git could not be started: {error.strerror}") from error
            try:
                async with asyncio.timeout(seconds):
                    printed, complaint = await process.communicate()
            except TimeoutError:
                raise GitFailed(f"git {arguments[0]} took longer than {seconds:g} s") from None
            finally:
                await _end(process)
        if process.returncode:
            raise GitFailed(f"git {arguments[0]}: {self._readable(complaint)}")
        return printed.decode(errors="replace")

    def _readable(self, complaint: bytes) -> str:
        """What git says, in one line and without credentials."""
        text = " ".join(complaint.decode(errors="replace").split())
        if "://" in self._repository:
            credentials, _, _ = urlsplit(self._repository).netloc.rpartition("@")
            text = text.replace(f"{credentials}@", "") if credentials else text
        return text


async def _end(process: Process) -> None:
    """End git and what it started, if they go on."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=CLEAN_UP_SECONDS)
