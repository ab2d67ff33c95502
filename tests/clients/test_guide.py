"""The sessions and commands of docs/client.md and of the client's README do what the texts say."""

import doctest
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hostsvc_client import Hostsvc

from tests.clients.process import Service, environment
from tests.contract.guide import differences, examples, run
from tests.paths import DOCS, ROOT

ADDRESS = "http://127.0.0.1:8080"
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDE = DOCS / "client.md"
README = ROOT / "clients/python/hostsvc-client/README.md"
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.slow
async def test_guide_does_what_it_says(
    shared: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = GUIDE.read_text().replace(ADDRESS, shared.url)
    names = run_session(text, monkeypatch)
    await run_commands(text, shared, names["key"], tmp_path)


def test_readme_does_what_it_says(shared: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    run_session(README.read_text().replace(ADDRESS, shared.url), monkeypatch)


def run_session(text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run all interactive examples of a text in one namespace, and return that."""
    monkeypatch.setattr(doctest, "ELLIPSIS_MARKER", r"\u2026")  # it escapes what it compares
    session = "".join(SESSION.findall(text))
    found = doctest.DocTestParser().get_doctest(session, {}, "guide", None, 0)
    reported: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
    assert len(found.examples) > 5
    runner.run(found, out=reported.append, clear_globs=False)
    for value in found.globs.values():
        if isinstance(value, Hostsvc):
            value.close()
    assert not reported, "".join(reported)
    return found.globs


async def run_commands(text: str, service: Service, key: str, directory: Path) -> None:
    [manifest] = YAML.findall(text)
    (directory / "team.yaml").write_text(manifest)
    documented = list(examples(text))
    path = f"{Path(sys.executable).parent}:{environment()['PATH']}"
    variables = {"PATH": path, "HOSTSVC_URL": service.url, "HOSTSVC_API_KEY": key, "COLUMNS": "110"}
    printed = await run([f"cd {directory}", *(each.command for each in documented)], environment(**variables))
    assert differences(documented, printed[1:]) == []
