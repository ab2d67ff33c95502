"""What the configuration takes, and how it refuses the rest."""

import tomllib
from dataclasses import fields, replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from hostsvc.config import SECTIONS, Config, ConfigError, load_config
from hostsvc.llm.providers import ProviderSettings
from storage.model import Source
from supervisors.settings import RunSettings, SupervisorSettings
from tests.paths import ROOT

SHIPPED = ROOT / "config.toml"


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str) -> Path:
    file = Path("config.toml")
    file.write_text(text)
    return file


def refusal(text: str = "", **environment: str) -> str:
    file = written(text) if text else None
    with pytest.raises(ConfigError) as caught:
        load_config(file, environment)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_file_and_environment_everything_has_its_default() -> None:
    assert load_config(None, {"PATH": "/bin"}) == Config()


def test_the_shipped_file_says_the_defaults() -> None:
    assert replace(load_config(SHIPPED, {}), origins=()) == Config()


def test_the_shipped_file_names_every_key() -> None:
    shipped = {section: set(keys) for section, keys in tomllib.loads(SHIPPED.read_text()).items()}
    known = {section: {key.name for key in fields(getattr(Config(), section))} for section in SECTIONS}
    assert shipped == known


def test_the_shipped_file_explains_every_key() -> None:
    unexplained = [line for line in SHIPPED.read_text().splitlines() if "=" in line and " # " not in line]
    assert [line for line in unexplained if not line.startswith("#")] == []


def test_the_file_in_the_working_directory_is_used_and_named() -> None:
    written("[server]\nport = 9000")
    config = load_config(None, {})
    assert config.server.port == 9000
    assert config.origins == ("config.toml",)


def test_a_variable_overrides_the_file() -> None:
    file = written("[server]\nport = 9000\nhost = '::1'")
    config = load_config(file, {"HOSTSVC__SERVER__PORT": "80"})
    assert (config.server.host, config.server.port) == ("::1", 80)
    assert config.origins == ("config.toml", "HOSTSVC__SERVER__PORT")


def test_variables_are_read_by_the_type_of_their_key() -> None:
    config = load_config(
        None,
        {
            "HOSTSVC__SERVER__DRAIN_SECONDS": "2.5",
            "HOSTSVC__SERVER__TRUSTED_PROXIES": "10.0.0.0/8, ::1",
            "HOSTSVC__SUPERVISORS__CONVERSATIONAL_SOURCES": "sms,portal",
            "HOSTSVC__DATABASE__DATA_DIR": "/var/lib/hostsvc",
            "HOSTSVC__ACCOUNTS__SIGNUP": "closed",
            "HOSTSVC__OPERATOR__OPEN_METRICS": "true",
            "HOSTSVC__HARNESS__COMMAND": "python3, -S,run.py",
        },
    )
    assert config.server.drain_seconds == 2.5
    assert config.server.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1"))
    assert config.supervisors.conversational_sources == {Source.SMS, Source.PORTAL}
    assert config.database.data_dir == Path("/var/lib/hostsvc")
    assert config.accounts.signup == "closed"
    assert config.operator.open_metrics is True
    assert config.harness.command == ("python3", "-S", "run.py")


def test_a_blank_variable_is_an_empty_list() -> None:
    config = load_config(None, {"HOSTSVC__SUPERVISORS__CONVERSATIONAL_SOURCES": ""})
    assert config.supervisors.conversational_sources == frozenset()


def test_a_whole_number_of_seconds_is_a_number() -> None:
    assert load_config(written("[runs]\nmax_seconds = 60"), {}).runs.max_seconds == 60.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serwer]\nport = 1", "config.toml: there is no section [serwer]; there are server, database"),
        ("server = 1", "config.toml: server is a section: write [server] and its keys below it"),
        ("port = 1", "config.toml: there is no section [port]"),
        ("origins = []", "config.toml: there is no section [origins]"),
        ("[server]\nprot = 1", "config.toml: server.prot: there is no such key; [server] has host, port"),
        ("[server.tls]\na = 1", "config.toml: server.tls: there is no such key"),
        ("[server]\nport = '80'", "config.toml: server.port: takes an integer, not '80'"),
        ("[server]\nport = true", "config.toml: server.port: takes an integer, not True"),
        ("[server]\nport = 80.0", "config.toml: server.port: takes an integer, not 80.0"),
        ("[server]\nport = 70000", "config.toml: server.port: port takes 0 to 65535, not 70000"),
        ("[server]\nhost = ''", "host takes an address or a host name, not a blank"),
        ("[operator]\nopen_metrics = 1", "config.toml: operator.open_metrics: takes true or false, not 1"),
        ("[server]\nhost = 1", "server.host: takes text, not 1"),
        ("[server]\nbase_url = 'example.org'", "base_url takes http(s)://host[:port][/path]"),
        ("[server]\nbase_url = 'http://[a'", "base_url takes http(s)://host[:port][/path]"),
        ("[server]\nbase_url = 'https://a.org/'", "without a final slash, not 'https://a.org/'"),
        ("[server]\ntrusted_proxies = '10.0.0.0/8'", "takes a list of networks such as"),
        ("[server]\ntrusted_proxies = ['10.0.0.1/8']", "takes a list of networks such as"),
        ("[server]\ntrusted_proxies = [1]", "takes a list of networks such as"),
        ("[runs]\nmax_seconds = nan", "runs.max_seconds: takes a number, not nan"),
        ("[runs]\nmax_seconds = inf", "runs.max_seconds: takes a number, not inf"),
        (f"[runs]\nmax_seconds = 1{'0' * 400}", "runs.max_seconds: takes a number"),
        ("[runs]\nmax_concurrent = 0", "max_concurrent takes 1 to 1000000, not 0"),
        ("[runs]\ndefault_provider = 'a/b'", "default_provider takes the name of a model provider"),
        ("[supervisors]\nconversational_sources = ['fax']", "takes a list of sources (email, sms"),
        ("[database]\nurl = 'localhost/db'", "url takes postgresql://user:password@host:port/name"),
        ("[database]\nurl = 'postgresql://h:70000/db'", "url takes postgresql://user:password@host"),
        ("[database]\nurl = 'postgresql://[::1/db'", "url takes postgresql://user:password@host"),
        ("[database]\ndata_dir = ' '", "database.data_dir: takes a path, not ' '"),
        ("[harness]\nkind = 'docker'", "harness.kind: takes one of builtin, process, not 'docker'"),
        ("[harness]\nkind = 'process'\ncommand = ['a']", "harness.repository: is needed where harness.kind"),
        ("[harness]\nkind = 'process'\nrepository = 'a'", "harness.command: is needed where harness.kind"),
        ("[harness]\ncommand = 'run.py'", "harness.command: takes a list of texts, not 'run.py'"),
        ("[harness]\ncommand = [' ']", "command takes a program and its arguments"),
        ("[harness]\nrepository = '--upload-pack=x'", "repository takes a path or a URL that git takes"),
        ("[harness]\nrepository = 'ext::sh -c id'", "repository takes a path or a URL that git takes"),
        ("[harness]\ncache_commits = 0", "cache_commits takes 1 to 100000, not 0"),
        ("[log]\nlevel = 'INFO'", "log.level: takes one of debug, info, warning, error, not 'INFO'"),
        (
            "[models]\nbase_url = 'http://a'",
            "models holds providers: write [models.<provider>] above base_url",
        ),
        ("[models.a]\nstream = true", "config.toml: models.a.base_url: is missing; it takes the address"),
        (
            "[models.a]\nurl = 'http://a'",
            "models.a.url: there is no such key; [models.a] has base",
        ),
        (
            "[models.a]\nbase_url = 'a.org'",
            "models.a: base_url takes http(s)://host[:port][/path]",
        ),
        ("[models.a]\nbase_url = 'http://me:pw@a.org'", "without user, password and query"),
        (
            "[models.a]\nbase_url = 'http://a'\ntimeout_seconds = 0",
            "timeout_seconds takes 0.1 to 86400, not 0",
        ),
        ("[models.a]\nbase_url = 'http://a'\nmax_retries = 99", "max_retries takes 0 to 10, not 99"),
        (
            "[models.a]\nbase_url = 'http://a'\nthinking_field = 'x'",
            "models.a.thinking_field: takes one of none, reasoning, thinking, thinking_token_budget, not 'x'",
        ),
        ("[models.builtin]\nbase_url = 'http://a'", "config.toml: models.builtin: a provider's name takes"),
        ("[models.Open]\nbase_url = 'http://a'", "a provider's name takes small letters, digits and _.-"),
        ("[models.a]\nbase_url = 'http://a..b/v1'", "models.a: base_url takes http(s)://host[:port][/path]"),
        ("[models.a]", "config.toml: models.a: is empty; it takes at least a base_url"),
        ("[server", "config.toml: is not TOML: "),
    ],
)
def test_a_bad_file_is_refused_by_a_line_that_names_the_key(text: str, message: str) -> None:
    assert message in refusal(text)


def test_providers_of_models_are_read_from_file_and_environment_together() -> None:
    file = written(
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
def test_a_providers_key_that_is_not_set_is_refused_by_those_who_need_it(environment: dict[str, str]) -> None:
    config = load_config(written("[models.a]\nbase_url = 'http://a'\napi_key_env = 'THE_KEY'"), environment)
    with pytest.raises(ConfigError, match=r"models\.a\.api_key_env: the variable THE_KEY is not set"):
        config.require_models()


@pytest.mark.parametrize("key", [" ", "sk-a\n", "sk a", "sk-é", "sk-a\r\nX-Other: 1", "\udcff"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    config = load_config(
        written("[models.a]\nbase_url = 'http://a'\napi_key_env = 'THE_KEY'"), {"THE_KEY": key}
    )
    with pytest.raises(ConfigError) as caught:
        config.require_models()

    assert str(caught.value) == (
        "models.a.api_key_env: the variable THE_KEY holds what is no key; "
        "keys are visible ASCII characters without spaces and line breaks"
    )


def test_a_default_provider_that_is_none_is_refused() -> None:
    config = load_config(written("[runs]\ndefault_provider = 'openai'"), {})
    with pytest.raises(ConfigError, match=r"runs\.default_provider: takes one of builtin, not 'openai'"):
        config.require_models()


@pytest.mark.parametrize("name", ["HOSTSVC__MODELS", "HOSTSVC__MODELS__OPENAI", "HOSTSVC__MODELS__OPENAI__"])
def test_a_variable_of_a_provider_names_the_provider_and_a_key(name: str) -> None:
    assert refusal(**{name: "x"}).startswith(f"{name}: takes the form HOSTSVC__SECTION__KEY in capitals")


def test_the_providers_in_the_comments_of_the_shipped_file_have_every_key_and_its_default() -> None:
    lines = SHIPPED.read_text().splitlines()
    start = lines.index("# [models.openai]")
    end = lines.index("", start)
    shown = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines[start:end]))["models"]["openai"]
    assert shown.keys() == {key.name for key in fields(ProviderSettings)}
    expected = ProviderSettings(base_url=shown["base_url"], api_key_env=shown["api_key_env"])
    assert ProviderSettings(**shown) == expected


@pytest.mark.parametrize("value", ["", " 80", "8_0", "80.0", "٨٠", "0x50", "true"])
def test_a_variable_for_an_integer_takes_ascii_digits_only(value: str) -> None:
    message = refusal(HOSTSVC__SERVER__PORT=value)
    assert message == f"HOSTSVC__SERVER__PORT: takes an integer, not {value!r}"


@pytest.mark.parametrize("value", ["", "nan", "inf", "1e3", "1,5", "1_0.0"])
def test_a_variable_for_a_number_takes_decimals_only(value: str) -> None:
    message = refusal(HOSTSVC__RUNS__MAX_SECONDS=value)
    assert message == f"HOSTSVC__RUNS__MAX_SECONDS: takes a number, not {value!r}"


@pytest.mark.parametrize("value", ["", "True", "1", "yes", " true"])
def test_a_variable_for_a_boolean_takes_true_or_false_only(value: str) -> None:
    message = refusal(HOSTSVC__OPERATOR__OPEN_METRICS=value)
    assert message == f"HOSTSVC__OPERATOR__OPEN_METRICS: takes true or false, not {value!r}"


@pytest.mark.parametrize(
    "name", ["HOSTSVC__PORT", "HOSTSVC__SERWER__PORT", "HOSTSVC__server__port", "HOSTSVC__"]
)
def test_a_variable_that_names_no_section_is_refused(name: str) -> None:
    assert refusal(**{name: "1"}).startswith(f"{name}: takes the form HOSTSVC__SECTION__KEY in capitals")


def test_a_variable_that_names_no_key_is_refused() -> None:
    message = refusal(HOSTSVC__LOG__COLOUR="1")
    assert message == "HOSTSVC__LOG__COLOUR: there is no such key; [log] has level, format"


def test_a_missing_file_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^nowhere\.toml: cannot be read: No such file or directory$"):
        load_config(Path("nowhere.toml"), {})


def test_a_file_that_is_no_text_is_refused() -> None:
    Path("config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"config\.toml: is not TOML"):
        load_config(None, {})


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HOSTSVC__ACCOUNTS__TOKEN_SECRET", "hunter2-is-short"),
        ("HOSTSVC__OPERATOR__TOKEN", "hunter2 with spaces"),
        ("HOSTSVC__DATABASE__URL", "mysql://root:hunter2@localhost/db"),
        ("HOSTSVC__HARNESS__REPOSITORY", "-https://git:hunter2@example.org/agents.git"),
    ],
)
def test_a_refused_secret_is_not_repeated(name: str, secret: str) -> None:
    message = refusal(**{name: secret})
    assert message.startswith(f"{name}: ")
    assert "hunter2" not in message


def test_a_secret_of_the_wrong_type_is_not_repeated() -> None:
    assert refusal("[operator]\ntoken = 112233") == "config.toml: operator.token: takes text"


def test_secrets_are_not_shown() -> None:
    config = load_config(
        None,
        {
            "HOSTSVC__ACCOUNTS__TOKEN_SECRET": "hunter2" * 5,
            "HOSTSVC__OPERATOR__TOKEN": "hunter2",
            "HOSTSVC__DATABASE__URL": "postgresql://root:hunter2@localhost/db",
        },
    )
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_settings_built_in_code_are_held_to_the_same_limits(value: float) -> None:
    with pytest.raises(ValueError, match=r"^idle_seconds takes 0 to"):
        SupervisorSettings(idle_seconds=value)
    with pytest.raises(ValueError, match=r"^stop_grace_seconds takes 0 to"):
        RunSettings(stop_grace_seconds=value)
