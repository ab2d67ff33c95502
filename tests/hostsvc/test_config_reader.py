"""Errors of the configuration are reported together, with the nearest known names."""

from pathlib import Path

import pytest

from hostsvc.config_reader import read_config, stray_variables


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_errors_are_reported_with_their_sections() -> None:
    file = Path("config.toml")
    file.write_text(
        "[server]\nport = 70000\nhost = 1\n[harness]\nkind = 'process'\n[log]\nlevel = 'loud'\n"
        "[models.a]\nstream = 1\n[models.b]\nbase_url = 'b'\n[serwer]\nport = 1\n"
    )
    config, errors = read_config(file, {"HOSTSVC__RUNS__MAX_TURNS": "x", "HOSTSVC__RUNS__MAX_SECONDS": "7"})
    assert [message.partition(" ")[0] + " " + message.split(" ")[1] for message in errors.messages] == [
        "config.toml: unknown",
        "config.toml: server.port",
        "config.toml: server.host",
        "config.toml: log.level",
        "HOSTSVC__RUNS__MAX_TURNS: runs.max_turns",
        "harness.repository must",
        "harness.command must",
        "config.toml: models.a.stream",
        "config.toml: models.a.base_url",
        "config.toml: models.b.base_url",
    ]
    assert errors.sections == {"serwer", "server", "log", "runs", "harness", "models"}
    assert config.runs.max_seconds == 7.0, "the valid rest is read"


@pytest.mark.parametrize(
    ("text", "environment", "hint"),
    [
        ("[server]\nprot = 1", {}, "; did you mean port?"),
        ("[servr]\nport = 1", {}, "; did you mean server?"),
        ("", {"HOSTSVC__SERVER__PROT": "1"}, "; did you mean port?"),
        ("", {"HOSTSVC__SERVR__PORT": "1"}, "; did you mean HOSTSVC__SERVER__PORT?"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest_one(
    text: str, environment: dict[str, str], hint: str
) -> None:
    Path("config.toml").write_text(text)
    _, errors = read_config(None, environment)
    (message,) = errors.messages
    assert message.endswith(hint)


def test_variables_that_only_look_like_settings_are_found() -> None:
    environment = {
        "HOSTSVC_SERVER_PORT": "1",
        "HOSTSVC_FLAVOUR": "vanilla",
        "HOSTSVC_TEST_DATABASE_URL": "postgresql://",
        "HOSTSVC_RUN_TOKEN": "of a run",
        "HOSTSVC_KEY_OF_A": "named by a provider",
        "HOSTSVC__SERVER__PORT": "1",
        "HOSTSVC__MODELS__A__BASE_URL": "http://a",
        "HOSTSVC__MODELS__A__API_KEY_ENV": "HOSTSVC_KEY_OF_A",
        "PATH": "/bin",
    }
    config, _ = read_config(None, environment)
    flavour, port = stray_variables(config, environment)
    no_effect = "is not a setting and has no effect"
    assert flavour == (
        f"the variable HOSTSVC_FLAVOUR {no_effect}; settings have the form HOSTSVC__SECTION__KEY"
    )
    assert port == f"the variable HOSTSVC_SERVER_PORT {no_effect}; did you mean HOSTSVC__SERVER__PORT?"
