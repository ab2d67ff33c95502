"""The guide to harnesses names exactly the requests that the token of a run allows."""

import re

from tests.paths import DOCS
from web.access.auth import RunAccess
from web.app import PROTOCOL_ROUTES, ROUTES

REQUEST = re.compile(r"`(GET|POST|PATCH|DELETE) (\S+?)`")
PLACEHOLDER = re.compile(r"\{\w+\}")


def documented_requests() -> set[tuple[str, str]]:
    """Return the method and the path of each request in the table of the guide.

    A path may leave out its beginning, which is then `…`.
    """
    guide = (DOCS / "harness.md").read_text()
    table = guide.partition("## What it may do")[2].partition("Every other request is refused")[0]
    return {(method, PLACEHOLDER.sub("{}", path)) for method, path in REQUEST.findall(table)}


def test_guide_names_each_request_that_a_run_may_make() -> None:
    documented = documented_requests()
    assert documented
    named: set[tuple[str, str]] = set()
    missing: list[str] = []
    for route in (*ROUTES, *PROTOCOL_ROUTES):
        if route.run_access is RunAccess.NEVER:
            continue
        path = PLACEHOLDER.sub("{}", route.path)
        forms = {(route.method, path), *((route.method, f"…{path[i:]}") for i in range(len(path)))}
        named |= documented & forms
        if not documented & forms:
            missing.append(f"{route.method} {route.path}")
    assert missing == [], "docs/harness.md does not name these requests"
    assert documented == named, "docs/harness.md names requests that a run may not make"
