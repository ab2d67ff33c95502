"""What clients prefer, by their headers."""

import pytest
from aiohttp.test_utils import make_mocked_request

from web.request.preferences import accepts_encoding, prefers_html

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML; charset=utf-8", True),
        ("text/html;q=0.9, application/json;q=0.8", True),
        ("text/html;q=0.8, application/json;q=0.9", False),
        ("text/html, application/json", False),
        ("text/html;q=0", False),
        ("text/html;q=many", False),
        ("text/html;q=nan", False),
        ("*/*", False),
        ("application/json", False),
        ("", False),
        (",;,=;q=", False),
    ],
)
def test_html_is_preferred_only_by_higher_quality(accept: str, is_html: bool) -> None:
    request = make_mocked_request("GET", "/", headers={"Accept": accept})
    assert prefers_html(request) is is_html


@pytest.mark.parametrize(
    ("encodings", "is_accepted"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("br, zstd", False),
        ("identity", False),
        ("", False),
    ],
)
def test_encoding_is_accepted_unless_refused(encodings: str, is_accepted: bool) -> None:
    request = make_mocked_request("GET", "/", headers={"Accept-Encoding": encodings})
    assert accepts_encoding(request, "gzip") is is_accepted
