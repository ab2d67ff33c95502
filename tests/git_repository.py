"""A git repository for a test to keep code in."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "tag.gpgSign=false")


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A work tree with its history; it begins on `main`, without a commit."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "GitRepository":
        path.mkdir(parents=True)
        repository = cls(path)
        repository.git("init", "--quiet", "--initial-branch=main")
        return repository

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *AUTHOR, *arguments], cwd=self.path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """The hash of a commit that has these files besides what there was; `run` is the file run.py."""
        for name, content in files.items():
            (self.path / f"{name}.py").write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=step")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        """Go on on this branch, made of the present commit where there is none of the name."""
        self.git("checkout", "--quiet", "-B", name)
