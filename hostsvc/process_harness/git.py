"""git on a mirror of the harness repository. Only our own configuration applies.

GitError
├── GitFailed       a command failed or took too long; the message is git's, without credentials
└── NoSuchRef       nothing in the repository has this name; the message is for the tenant who chose it
"""

import asyncio
import re
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from hostsvc.process_harness.programs import CLEAN_UP_SECONDS, run_program

log = structlog.get_logger()

PROGRAMS = ("git", "timeout", "find")  # that must be on the PATH
MAX_CONCURRENT = 4
GARBAGE_COLLECTION_SECONDS = 3600.0
DEFAULT_REF = "main"
FETCH_OPTIONS = (
    *("--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"),
    "--no-auto-maintenance",  # a run would have to wait for it
)

# Forbidden by git's rules for names, or with a meaning other than a name.
INVALID_REF = re.compile(r"^[-/.]|\.\.|//|/\.|@\{|^@$|\.lock(/|$)|[/.]$|[ ~^:?*\[\\]")
FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
HASH = re.compile(r"[0-9a-fA-F]{7,64}")
NAMESPACES = ("refs/heads/", "refs/tags/")
REF_FORMAT = "%(refname) %(objecttype) %(objectname)"

VARIABLES = ("PATH", "SSH_AUTH_SOCK", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
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
    """The code of a run could not be fetched or found."""


class GitFailed(GitError):
    """A git command failed or took too long."""


class NoSuchRef(GitError):
    """Nothing in the repository has this name."""


def require_valid_ref(ref: str) -> None:
    """Raise NoSuchRef unless a branch, a tag or a commit can have this name; git never sees another."""
    if not ref.isprintable() or INVALID_REF.search(ref):
        raise NoSuchRef(f"{ref!r} cannot be the name of a branch, a tag or a commit")


def is_full_hash(ref: str) -> bool:
    """Return whether this always names the same commit."""
    return FULL_HASH.fullmatch(ref) is not None


def address_of(repository: str) -> str:
    """Return the address for use in any directory: a path made absolute, a URL or host:path unchanged."""
    host, colon, _ = repository.partition(":")
    if colon and "/" not in host and not Path(repository).exists():
        return repository
    return str(Path(repository).expanduser().absolute())


class Mirror:
    """A bare copy of the repository's branches and tags in `directory`; `home` is the HOME of git."""

    def __init__(
        self, repository: str, directory: Path, home: Path, timeout: float, environment: Mapping[str, str]
    ) -> None:
        self._repository = repository
        self._directory = directory
        self._home = home
        self._timeout_seconds = timeout
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._is_collecting = False
        self._environment = {name: environment[name] for name in VARIABLES if name in environment} | {
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
            # Not on the command line, which every user of the machine can read.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "remote.origin.url",
            "GIT_CONFIG_VALUE_0": repository,
        }

    async def prepare(self) -> None:
        """Create the mirror if there is none, and remove what a killed git left behind."""
        await asyncio.to_thread(self._set_up)
        await self._remove_leftovers()
        await self._git("init", "--quiet", "--bare", "--template=")

    def _set_up(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        (self._home / "gitconfig").write_text(CONFIGURATION)

    async def _remove_leftovers(self) -> None:
        """Remove the lock files and the incomplete objects of a killed git."""
        partial = ("-path", "./objects/*", "-name", "tmp_*")
        found = ("-type", "f", "(", "-name", "*.lock", "-o", *partial, ")")
        await run_program("find", ".", *found, "-delete", directory=self._directory)

    async def require_reachable(self) -> None:
        """Raise GitFailed unless the repository answers, without fetching anything."""
        await self._git("ls-remote", "--quiet", "origin", "HEAD")

    async def fetch(self) -> None:
        """Bring the mirror up to date. Raise GitFailed. Only one call may run at a time."""
        branches, tags = (f"+{namespace}*:{namespace}*" for namespace in NAMESPACES)
        try:
            await self._git("fetch", *FETCH_OPTIONS, "origin", branches, tags)
        except GitFailed:
            if not self._is_collecting:
                await self._remove_leftovers()
            raise

    async def collect_garbage(self) -> None:
        """Repack what many fetches have left in pieces, if git finds it necessary. It may take minutes."""
        if self._is_collecting:
            return
        self._is_collecting = True
        try:
            await self._git("gc", "--auto", "--quiet", seconds=GARBAGE_COLLECTION_SECONDS)
        except GitFailed as error:
            log.warning("git gc failed on the mirror of the repository", reason=str(error))
        finally:
            self._is_collecting = False

    async def resolve(self, ref: str) -> str:
        """Return the commit of a branch, a tag, or a commit hash that one of them reaches, as last fetched.

        Raise NoSuchRef if there is none, and GitFailed.
        """
        require_valid_ref(ref)
        if is_full_hash(ref):  # the commit takes precedence over a branch of the same name, as in git
            commit = await self._reachable(ref) or await self._named(ref)
        else:
            commit = await self._named(ref) or await self._reachable(ref)
        if commit is None:
            raise NoSuchRef(f'the repository has no branch, tag or commit "{ref}"')
        return commit

    async def write(self, commit: str, directory: Path, index: Path) -> None:
        """Write the files of the commit into an empty directory, and git's index to the file `index`."""
        await self._git("read-tree", "--reset", "-u", commit, tree=directory, index=index)

    async def _named(self, ref: str) -> str | None:
        """Return the commit of a branch, or else of a tag."""
        names = [ref] if ref.startswith(NAMESPACES) else [namespace + ref for namespace in NAMESPACES]
        # Each pattern also matches all refs below it, like a directory.
        lines = (await self._git("for-each-ref", f"--format={REF_FORMAT}", *names)).splitlines()
        refs = {name: (kind, target) for name, kind, target in (line.split(" ") for line in lines)}
        for name in names:
            kind, target = refs.get(name, ("", ""))
            commit = target if kind == "commit" else await self._commit_of(target) if kind == "tag" else None
            if commit is not None:
                return commit
        return None

    async def _reachable(self, ref: str) -> str | None:
        """Return the commit of this hash, or prefix of one, if a branch or a tag reaches it."""
        commit = await self._commit_of(ref) if HASH.fullmatch(ref) else None
        if commit is None:
            return None
        reaching = await self._git("for-each-ref", "--count=1", f"--contains={commit}", *NAMESPACES)
        return commit if reaching else None

    async def _commit_of(self, name: str) -> str | None:
        """Return the commit that this object is, or that a tag (or a tag of a tag) points to."""
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
        """Run git and return its output. Raise GitFailed."""
        seconds = self._timeout_seconds if seconds is None else seconds
        paths = [f"--git-dir={self._directory}", *([f"--work-tree={tree}"] if tree else [])]
        environment = self._environment | ({"GIT_INDEX_FILE": str(index)} if index else {})
        try:
            async with self._slots:
                end = await run_program(
                    # It ends git if this service is killed; otherwise run_program() does.
                    *("timeout", "-s", "KILL", str(ceil(seconds + CLEAN_UP_SECONDS))),
                    *("git", *paths, *arguments),
                    directory=tree or self._home,
                    environment=environment,
                    seconds=seconds,
                )
        except TimeoutError:
            raise GitFailed(f"git {arguments[0]} took longer than {seconds:g} s") from None
        except OSError as error:
            raise GitFailed(f"git could not be started: {error.strerror}") from error
        if end.code:
            raise GitFailed(f"git {arguments[0]}: {self._readable(end.errors)}")
        return end.output

    def _readable(self, errors: str) -> str:
        """Return the error of git as one line without credentials."""
        text = " ".join(errors.split())
        if "://" in self._repository:
            credentials, _, _ = urlsplit(self._repository).netloc.rpartition("@")
            text = text.replace(f"{credentials}@", "") if credentials else text
        return text
