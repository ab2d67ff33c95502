"""The settings of the harness: what each kind needs, and which values are refused."""

from typing import Any

import pytest

from hostsvc.process_harness.settings import HarnessSettings


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({}, []),
        ({"repository": "/srv/agents.git"}, []),
        ({"kind": "process"}, ["repository", "command"]),
        ({"kind": "process", "repository": " ", "command": ("run",)}, ["repository"]),
        ({"kind": "process", "repository": "/srv/agents.git"}, ["command"]),
        ({"kind": "process", "repository": "/srv/agents.git", "command": ("run",)}, []),
    ],
)
def test_missing_names_the_keys_that_the_kind_needs(fields: dict[str, Any], missing: list[str]) -> None:
    assert HarnessSettings(**fields).missing() == missing


@pytest.mark.parametrize("repository", ["--upload-pack=x", "ext::sh -c id", "EXT::id", "a\nb"])
def test_repository_that_git_could_misread_is_refused(repository: str) -> None:
    with pytest.raises(ValueError, match=r"^repository must "):
        HarnessSettings(repository=repository)


@pytest.mark.parametrize("containment", ["namespace", "user", "cgroup"])
def test_former_containment_is_refused_with_its_successor(containment: str) -> None:
    known = "containment must be one of auto, bubblewrap, none"
    hint = 'it was removed in version 0.2: write "bubblewrap" instead'
    with pytest.raises(ValueError, match=f"^{known}, got '{containment}'; {hint}$"):
        HarnessSettings(containment=containment)
