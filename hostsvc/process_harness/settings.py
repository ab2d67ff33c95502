"""The settings of the harness, which executes runs."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from supervisors.settings import YEAR_SECONDS, require_between

# git would run the program that `<helper>::<address>` names.
REMOTE_HELPER = re.compile(r"[A-Za-z0-9]+::")


@dataclass(frozen=True, slots=True)
class HarnessSettings:
    """The built-in loop, or the agents' own code: a command in a git repository, started for each run.

    `repository` may contain a password. `user` is the operating-system user that runs the code; blank means
    the user of the service.
    """

    kind: Literal["builtin", "process"] = "builtin"
    repository: str = field(default="", repr=False)
    command: tuple[str, ...] = ()
    user: str = ""
    cache_dir: Path = Path("data/harness")
    cache_commits: int = 20
    git_timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.repository.startswith("-") or REMOTE_HELPER.match(self.repository):
            raise ValueError("repository must be a path or a URL that git can fetch from")
        if self.repository and not self.repository.isprintable():
            raise ValueError("repository must consist of visible characters")
        if self.command and not self.command[0].strip():
            raise ValueError('command must be a program and its arguments, such as ["python3", "run.py"]')
        require_between("cache_commits", self.cache_commits, 1, 100_000)
        require_between("git_timeout_seconds", self.git_timeout_seconds, 0.1, YEAR_SECONDS)

    def missing(self) -> str | None:
        """Return the first key that `kind` needs and that is not set, or None."""
        if self.kind == "builtin":
            return None
        return "repository" if not self.repository.strip() else "command" if not self.command else None
