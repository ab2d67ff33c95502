"""The guide of `serve --guide`; that its lines work is tested in `test_commands`."""

from hostsvc.cli.guide import guide


def test_guide_uses_the_address_and_the_token_command() -> None:
    text = guide("http://127.0.0.1:8080", "hostsvc operator-token --config mine.toml")
    assert "curl -s http://127.0.0.1:8080/api/organizations/auth/signup/" in text
    assert 'Bearer $(hostsvc operator-token --config mine.toml)"' in text
    assert "{base_url}" not in text


def test_guide_names_where_people_and_programs_look() -> None:
    text = guide("http://127.0.0.1:8080", "hostsvc operator-token")
    for path in ("/console/", "/api/docs/", "/status/", "/metrics", "/healthz", "/readyz"):
        assert f"  http://127.0.0.1:8080{path} " in text
