"""The guide of `serve --guide`; that its lines work is tested in `test_commands`."""

from hostsvc.cli.guide import guide


def test_guide_uses_the_address_and_the_token_command() -> None:
    text = guide("http://127.0.0.1:8080", "hostsvc operator-token --config mine.toml")
    assert "curl -s http://127.0.0.1:8080/api/organizations/auth/signup/" in text
    assert 'Bearer $(hostsvc operator-token --config mine.toml)"' in text
    assert "{" not in text
