"""The configuration: what the reader accepts, and how it refuses everything else."""

import os
import tomllib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from hostsvc.config import MODELS, NOT_KEYS, Config, ConfigError
from hostsvc.config_reader import read_config, stray_variables
from hostsvc.llm.providers import ProviderSettings, parse_prices
from hostsvc.process_harness.settings import RunLimits
from supervisors.settings import RunSettings, SupervisorSettings
from tests.paths import ROOT

SHIPPED = ROOT / "config.toml"


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load_config(file: Path | None, environment: dict[str, str]) -> Config:
    """Return a configuration that must be valid."""
    config, errors = read_config(file, environment)
    assert errors.messages == []
    return config


def config_file(text: str) -> Path:
    file = Path("config.toml")
    file.write_text(text)
    return file


def refusal(text: str = "", **environment: str) -> str:
    file = config_file(text) if text else None
    _, errors = read_config(file, environment)
    (message,) = errors.messages
    assert "\n" not in message
    return message


def test_config_without_file_and_variables_has_the_defaults() -> None:
    assert load_config(None, {"PATH": "/bin"}) == Config()


def test_shipped_file_contains_the_defaults() -> None:
    assert replace(load_config(SHIPPED, {}), origins=()) == Config()


def test_shipped_file_contains_every_key() -> None:
    shipped = {section: set(keys) for section, keys in tomllib.loads(SHIPPED.read_text()).items()}
    sections = {section.name for section in fields(Config)} - NOT_KEYS - {MODELS}
    expected = {section: {key.name for key in fields(getattr(Config(), section))} for section in sections}
    assert shipped == expected
    limits = tomllib.loads(SHIPPED.read_text())["harness"]["limits"]
    assert set(limits) == {key.name for key in fields(RunLimits)}


def test_subsection_is_set_by_file_and_variable() -> None:
    file = config_file("[harness.limits]\nprocesses = 8\nhome_mb = 0")
    limits = load_config(file, {"HOSTSVC__HARNESS__LIMITS__PROCESSES": "16"}).harness.limits
    assert limits == RunLimits(processes=16, home_mb=0)


def test_shipped_file_explains_every_key() -> None:
    unexplained = [line for line in SHIPPED.read_text().splitlines() if "=" in line and " # " not in line]
    assert [line for line in unexplained if not line.startswith("#")] == []


def test_variable_overrides_the_file_in_the_working_directory() -> None:
    config_file("[server]\nport = 9000\nhost = '::1'")
    assert load_config(None, {}).origins == ("config.toml",)
    config = load_config(None, {"HOSTSVC__SERVER__PORT": "80"})
    assert (config.server.host, config.server.port) == ("::1", 80)
    assert config.origins == ("config.toml", "HOSTSVC__SERVER__PORT")


def test_roles_of_a_node_are_set_by_a_variable() -> None:
    node = load_config(None, {"HOSTSVC__NODE__ROLES": "http, runs", "HOSTSVC__NODE__NAME": "a"}).node
    assert (node.roles, node.name_or_host) == (("http", "runs"), "a")
    assert load_config(None, {}).node.name_or_host == os.uname().nodename


def test_blank_variable_is_an_empty_list() -> None:
    config = load_config(None, {"HOSTSVC__SUPERVISORS__CONVERSATIONAL_SOURCES": ""})
    assert config.supervisors.conversational_sources == frozenset()


@pytest.mark.parametrize(
    "url", ["postgresql://me:pw@a:5432,b/x", "postgresql://[::1]:1,[::2]:2/x", "postgresql:///x?host=/a,/b"]
)
def test_database_url_may_name_several_hosts(url: str) -> None:
    assert load_config(config_file(f"[database]\nurl = '{url}'"), {}).database.url == url


def test_integer_is_accepted_as_a_number() -> None:
    assert load_config(config_file("[runs]\nmax_seconds = 60"), {}).runs.max_seconds == 60.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serwer]\nport = 1", "config.toml: serwer is unknown; known are server, database"),
        ("server = 1", "config.toml: server must be a section: write its name in brackets"),
        ("port = 1", "config.toml: port is unknown"),
        ("origins = []", "config.toml: origins is unknown"),
        ("[server]\nprot = 1", "config.toml: server.prot is unknown; known are host, port"),
        ("[server.tls]\na = 1", "config.toml: server.tls is unknown"),
        ("[server]\nport = true", "config.toml: server.port must be an integer"),
        ("[server]\nport = 80.0", "config.toml: server.port must be an integer"),
        ("[server]\nport = 70000", "config.toml: server.port must be between 0 and 65535, got 70000"),
        ("[server]\nhost = ''", "config.toml: server.host must be an address or a host name, got a blank"),
        ("[operator]\nopen_metrics = 2", "config.toml: operator.open_metrics must be true or false"),
        ("[server]\nhost = 1", "server.host must be text"),
        ("[server]\nbase_url = 'example.org'", "server.base_url must be http(s)://host[:port][/path]"),
        ("[server]\nbase_url = 'http://[a'", "server.base_url must be http(s)://host[:port][/path]"),
        ("[server]\nbase_url = 'https://a.org/'", "without a final slash, got 'https://a.org/'"),
        ("[server]\ntrusted_proxies = 8", "server.trusted_proxies must be a list of networks"),
        ("[server]\ntrusted_proxies = ['10.0.0.1/8']", "must be a list of networks such as"),
        ("[server]\ntrusted_proxies = [1]", "must be a list of networks such as"),
        ("[runs]\nmax_seconds = nan", "runs.max_seconds must be a number"),
        ("[runs]\nmax_seconds = inf", "runs.max_seconds must be a number"),
        (f"[runs]\nmax_seconds = 1{'0' * 400}", "runs.max_seconds must be a number"),
        ("[runs]\nmax_concurrent = 0", "runs.max_concurrent must be between 1 and 1000000, got 0"),
        ("[runs]\ndefault_provider = 'a/b'", "runs.default_provider must be the name of a model"),
        ("[supervisors]\nconversational_sources = ['fax']", "must be a list of sources (email, sms"),
        ("[database]\nurl = 'localhost/db'", "database.url must be"),
        ("[database]\nurl = 'postgresql://[::1/db'", "database.url must be postgresql://user:password@host"),
        ("[database]\ndata_dir = ' '", "database.data_dir must be a path"),
        ("[harness]\nkind = 'docker'", "harness.kind must be one of builtin, process, got 'docker'"),
        ("[harness]\nkind = 'process'\ncommand = ['a']", "harness.repository must be set because"),
        ("[harness]\nkind = 'process'\nrepository = 'a'", "harness.command must be set because harness.kind"),
        ("[harness]\ncommand = {a = 'b'}", "harness.command must be a list of texts"),
        ("[harness]\ncommand = [' ']", "harness.command must be a program and its arguments"),
        ("[harness]\nlimits = 1", "harness.limits must be a section: write its name in brackets"),
        ("[harness.limits]\ncores = 1", "harness.limits.cores is unknown; known are processes"),
        ("[harness.limits]\nmemory_mb = -1", "harness.limits.memory_mb must be between 0 and 2147483647"),
        ("[harness.limits]\nopen_files = 3", "harness.limits.open_files must be at least 16 or 0 (no limit)"),
        ("[harness]\nfirst_user_id = 999", "harness.first_user_id was removed: delete it, and set user;"),
        ("[harness]\ncache_commits = 0", "harness.cache_commits must be between 1 and 100000, got 0"),
        ("[node]\nroles = []", "node.roles must be one or more of http, runs, chores, got []"),
        ("[node]\nroles = ['web']", "node.roles must be one or more of http, runs, chores, got ['web']"),
        ("[node]\nname = 'a\tb'", "node.name must have at most 100 visible characters"),
        ("[node]\nworkers = 65", "node.workers must be between 1 and 64, got 65"),
        ("[cluster]\naddress = '0.0.0.0'", "cluster.address must be an address of this machine that others"),
        ("[log]\nlevel = 'INFO'", "log.level must be one of debug, info, warning, error, got 'INFO'"),
        ("[models]\nbase_url = 'http://a'", "config.toml: models.base_url must be a section: write its"),
        ("[models.a]\nstream = true", "config.toml: models.a.base_url must be set"),
        ("[models.a]\nbase_url = 'http://a'\nurl = 'http://a'", "config.toml: models.a.url is unknown;"),
        ("[models.a]\nbase_url = 'a.org'", "models.a.base_url must be http(s)://host[:port][/path]"),
        ("[models.a]\nbase_url = 'http://a'\nthinking_field = 'x'", "a.thinking_field must be one of"),
        ("[models.builtin]\nbase_url = 'http://a'", "models.builtin must have another name"),
        ("[models.Open]\nbase_url = 'http://a'", "models.Open must have another name: the name of a"),
        ("[server", "config.toml: is not valid TOML: "),
    ],
)
def test_invalid_file_is_refused_by_one_line_naming_the_key(text: str, message: str) -> None:
    assert message in refusal(text)


def test_providers_combine_keys_of_file_and_variables() -> None:
    file = config_file(
        "[models.openai]\napi_key_env = 'OPENAI_API_KEY'\n[models.local]\nbase_url = 'http://a/v1'"
    )
    config = load_config(
        file,
        {
            "HOSTSVC__MODELS__OPENAI__BASE_URL": "https://api.openai.com/v1",
            "HOSTSVC__MODELS__OPENAI__MAX_RETRIES": "5",
            "OPENAI_API_KEY": "sk-secret",
        },
    )
    assert config.models == {
        "openai": ProviderSettings("https://api.openai.com/v1", "OPENAI_API_KEY", max_retries=5),
        "local": ProviderSettings("http://a/v1"),
    }
    assert config.model_keys == {"openai": "sk-secret"}
    assert "sk-secret" not in repr(config)
    config.require_models()


@pytest.mark.parametrize("environment", [{}, {"THE_KEY": ""}])
def test_require_models_refuses_missing_api_key(environment: dict[str, str]) -> None:
    config = load_config(
        config_file("[models.a]\nbase_url = 'http://a'\napi_key_env = 'THE_KEY'"), environment
    )
    with pytest.raises(ConfigError, match=r"models\.a\.api_key_env: the variable THE_KEY is not set"):
        config.require_models()


@pytest.mark.parametrize("key", [" ", "sk-a\n", "sk a", "sk-é", "sk-a\r\nX-Other: 1", "\udcff"])
def test_require_models_refuses_malformed_api_key_without_showing_it(key: str) -> None:
    config = load_config(
        config_file("[models.a]\nbase_url = 'http://a'\napi_key_env = 'THE_KEY'"), {"THE_KEY": key}
    )
    with pytest.raises(ConfigError) as caught:
        config.require_models()

    assert str(caught.value) == (
        "models.a.api_key_env: the variable THE_KEY does not hold an API key; "
        "a key consists of visible ASCII characters without spaces and line breaks"
    )


def test_shipped_file_comments_contain_every_provider_key_and_default() -> None:
    lines = SHIPPED.read_text().splitlines()
    start = lines.index("# [models.openai]")
    end = lines.index("", start)
    example = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines[start:end]))["models"][
        "openai"
    ]
    assert example.keys() == {key.name for key in fields(ProviderSettings)}
    assert parse_prices(example.pop("prices")).of("gpt-4o") is not None
    expected = ProviderSettings(base_url=example["base_url"], api_key_env=example["api_key_env"])
    assert ProviderSettings(**example) == expected


@pytest.mark.parametrize(
    ("name", "values", "takes"),
    [
        ("server.port", ("", "80.0", "0x50", "true"), "an integer"),
        ("runs.max_seconds", ("", "nan", "inf", "1,5"), "a number"),
        ("operator.open_metrics", ("", "2", "maybe"), "true or false"),
    ],
)
def test_variable_takes_only_texts_of_its_kind(name: str, values: Sequence[str], takes: str) -> None:
    variable = f"HOSTSVC__{name.replace('.', '__').upper()}"
    for value in values:
        message = refusal(**{variable: value})
        assert message.startswith(f"{variable}: {name} must be {takes}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("HOSTSVC__PORT", "port is unknown; known are server, database"),
        ("HOSTSVC__SERVER", "server must be a section"),
        ("HOSTSVC__SERVER__", "server. is unknown; known are host, port"),
        ("HOSTSVC__MODELS__OPENAI", "models.openai must be a section"),
    ],
)
def test_variable_that_names_no_key_is_refused(name: str, message: str) -> None:
    assert refusal(**{name: "1"}).startswith(f"{name}: {message}")


def test_file_that_cannot_be_read_is_refused_by_name() -> None:
    _, errors = read_config(Path("nowhere.toml"), {})
    assert errors.messages == ["nowhere.toml: cannot be read: No such file or directory"]
    Path("config.toml").write_bytes(b"\xff\xfe")
    _, errors = read_config(None, {})
    (message,) = errors.messages
    assert message.startswith("config.toml: is not valid TOML")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HOSTSVC__ACCOUNTS__TOKEN_SECRET", "hunter2-is-short"),
        ("HOSTSVC__OPERATOR__TOKEN", "hunter2 with spaces"),
        ("HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS", f"{'A' * 43},hunter2"),
        ("HOSTSVC__DATABASE__URL", "mysql://root:hunter2@localhost/db"),
        ("HOSTSVC__HARNESS__REPOSITORY", "-https://git:hunter2@example.org/agents.git"),
    ],
)
def test_refusal_does_not_repeat_an_invalid_secret(name: str, secret: str) -> None:
    message = refusal(**{name: secret})
    assert message.startswith(f"{name}: ")
    assert "hunter2" not in message


def test_refusal_does_not_repeat_a_secret_of_wrong_type() -> None:
    assert refusal("[operator]\ntoken = 112233") == "config.toml: operator.token must be text"


def test_config_repr_hides_secrets() -> None:
    config = load_config(
        None,
        {
            "HOSTSVC__ACCOUNTS__TOKEN_SECRET": "hunter2" * 5,
            "HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS": "hunter2" + "A" * 36,
            "HOSTSVC__OPERATOR__TOKEN": "hunter2",
            "HOSTSVC__DATABASE__URL": "postgresql://root:hunter2@localhost/db",
            "HOSTSVC__HARNESS__REPOSITORY": "https://git:hunter2@example.org/agents.git",
        },
    )
    assert len(config.accounts.encryption_keys) == 1
    assert "hunter2" not in repr(config)


def test_refusal_says_which_encryption_key_is_wrong() -> None:
    reason = "encryption_keys must be 32 bytes each, in URL-safe base64, but number 2 is not"
    message = refusal(HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS=f"{'A' * 43}, {'B' * 40}")
    assert message == f"HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS: accounts.{reason}: it has 30 bytes"
    message = refusal(f'[accounts]\nencryption_keys = ["{"A" * 43}", "C?"]')
    assert message == f"config.toml: accounts.{reason}: it is not base64"
    assert refusal("[accounts]\nencryption_keys = 7") == (
        "config.toml: accounts.encryption_keys must be a list of texts"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_settings_built_in_code_have_the_same_limits(value: float) -> None:
    with pytest.raises(ValueError, match=r"^idle_seconds must be between 0 and"):
        SupervisorSettings(idle_seconds=value)
    with pytest.raises(ValueError, match=r"^stop_grace_seconds must be between 0 and"):
        RunSettings(stop_grace_seconds=value)


def test_all_errors_are_reported_with_their_sections() -> None:
    file = Path("config.toml")
    file.write_text(
        "[server]\nport = 70000\nhost = 1\n[harness]\nkind = 'process'\n[log]\nlevel = 'loud'\n"
        "[models.a]\nstream = 'maybe'\n[models.b]\nbase_url = 'b'\n[serwer]\nport = 1\n"
    )
    variables = {"HOSTSVC__RUNS__MAX_TURNS": "x", "HOSTSVC__TRACING__CONTENT": "none"}
    config, errors = read_config(file, variables)
    assert [" ".join(message.split()[:2]) for message in errors.messages] == [
        "config.toml: server.host",
        "config.toml: server.port",
        "HOSTSVC__RUNS__MAX_TURNS: runs.max_turns",
        "config.toml: log.level",
        "config.toml: models.a.base_url",
        "config.toml: models.a.stream",
        "config.toml: models.b.base_url",
        "config.toml: serwer",
        "harness.repository must",
        "harness.command must",
    ]
    assert errors.sections == {"serwer", "server", "log", "runs", "harness", "models"}
    assert config.tracing.content == "none", "sections without errors are read"


@pytest.mark.parametrize(
    ("text", "environment", "hint"),
    [
        ("[server]\nprot = 1", {}, "; did you mean port?"),
        ("[servr]\nport = 1", {}, "; did you mean server?"),
        ("", {"HOSTSVC__SERVER__PROT": "1"}, "; did you mean port?"),
        ("", {"HOSTSVC__SERVR__PORT": "1"}, "; did you mean server?"),
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
        "HOSTSVC_API_KEY": "of the client",
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


def test_text_in_the_file_is_no_list() -> None:
    assert "harness.command must be a list of texts" in refusal("[harness]\ncommand = 'python run.py'")


def test_value_is_the_same_in_file_and_variable() -> None:
    in_file = config_file(
        "[server]\nport = 80\ndrain_seconds = 2\ntrusted_proxies = ['10.0.0.0/8']\n"
        "[operator]\nopen_metrics = true\n[harness]\ncommand = ['a', 'b c']\n"
        "[supervisors]\nconversational_sources = ['sms', 'portal']\n"
        "[database]\ndata_dir = '/var/lib/hostsvc'\n[accounts]\nsignup = 'closed'\n"
    )
    variables = {
        "HOSTSVC__SERVER__PORT": "80",
        "HOSTSVC__SERVER__DRAIN_SECONDS": "2",
        "HOSTSVC__SERVER__TRUSTED_PROXIES": "10.0.0.0/8",
        "HOSTSVC__OPERATOR__OPEN_METRICS": "true",
        "HOSTSVC__HARNESS__COMMAND": "a, b c",
        "HOSTSVC__SUPERVISORS__CONVERSATIONAL_SOURCES": "sms,portal",
        "HOSTSVC__DATABASE__DATA_DIR": "/var/lib/hostsvc",
        "HOSTSVC__ACCOUNTS__SIGNUP": "closed",
    }
    by_file = load_config(in_file, {})
    in_file.unlink()
    assert replace(load_config(None, variables), origins=()) == replace(by_file, origins=())
    variables["HOSTSVC__HARNESS__COMMAND"] = '["a", "b c"]'
    assert replace(load_config(None, variables), origins=()) == replace(by_file, origins=())


def test_list_in_json_may_have_commas_in_its_items() -> None:
    variables = {"HOSTSVC__HARNESS__COMMAND": ' ["sh", "-c", "a, b"]'}
    assert load_config(None, variables).harness.command == ("sh", "-c", "a, b")
    broken = refusal(HOSTSVC__HARNESS__COMMAND='["sh", 1')
    assert "HOSTSVC__HARNESS__COMMAND: harness.command must be a list of texts" in broken


def test_relay_needs_a_sender_and_a_public_address() -> None:
    _, errors = read_config(None, {"HOSTSVC__MAIL__HOST": "relay", "HOSTSVC__MAIL__PASSWORD": "hunter2"})
    assert errors.messages == [
        "mail.sender must be set because mail.host is",
        "server.base_url must be set because mail.host is",
    ]


def test_user_of_the_relay_needs_a_password() -> None:
    user = {"HOSTSVC__MAIL__USER": "hostsvc"}
    assert read_config(None, user)[1].messages == ["mail.password must be set because mail.user is"]
    assert read_config(None, user | {"HOSTSVC__MAIL__PASSWORD": "hunter2"})[1].messages == []


def test_credential_stands_for_the_variable_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "hostsvc_HOSTSVC__OPERATOR__TOKEN").write_text("from-systemd\n")
    (tmp_path / "HOSTSVC__SERVER__PORT").write_text("81\r\n")
    (tmp_path / "HOSTSVC__SERVER__HOST").write_text("::1")
    (tmp_path / "..data").mkdir()  # as Kubernetes has it
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path), "HOSTSVC__SERVER__HOST": "::"}
    config = load_config(None, environment)
    assert (config.operator.token, config.server.port, config.server.host) == ("from-systemd", 81, "::")
    (tmp_path / "HOSTSVC__SERVER__PORT").write_bytes(b"\xff")
    _, errors = read_config(None, environment)
    assert errors.messages[0].startswith("CREDENTIALS_DIRECTORY: ")
