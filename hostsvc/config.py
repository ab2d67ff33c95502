"""The configuration: a TOML file, overridden by `HOSTSVC__SECTION__KEY`, as the settings each layer owns."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_type_hints
from urllib.parse import urlsplit

from hostsvc.config_values import is_base_url, is_visible_ascii, reader_of
from hostsvc.llm.providers import ProviderSettings
from hostsvc.logs import LogSettings
from hostsvc.outbound.guarded_http import OutboundSettings
from hostsvc.process_harness.settings import HarnessSettings
from storage.postgres.pool import DatabaseSettings
from supervisors.llm.inbox_model import PROVIDER
from supervisors.maintenance.retention_cleaner import RetentionSettings
from supervisors.settings import RunSettings, SupervisorSettings, require_between
from web.settings import MIN_SECRET_BYTES, SPAN_BODY_BYTES

DEFAULT_FILE = Path("config.toml")
ENVIRONMENT_PREFIX = "HOSTSVC__"
POOL = DatabaseSettings(url="postgresql://")  # for its defaults
MODELS = "models"  # holds no keys but sections: one for each provider of models
PROVIDER_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class ConfigError(Exception):
    """The configuration cannot be used; the message names the key and says what it takes."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where the service listens and how it is reached; port 0 is any free one."""

    host: str = "127.0.0.1"
    port: int = 8080
    base_url: str = ""
    drain_seconds: float = 10.0
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()

    def __post_init__(self) -> None:
        if not self.host.strip():
            raise ValueError("host takes an address or a host name, not a blank")
        require_between("port", self.port, 0, 65_535)
        require_between("drain_seconds", self.drain_seconds, 0, 3600)
        if self.base_url and (self.base_url.endswith("/") or not is_base_url(self.base_url)):
            raise ValueError(
                f"base_url takes http(s)://host[:port][/path] without a final slash, not {self.base_url!r}"
            )


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """The PostgreSQL to use: the one at `url`, or an embedded one with its files in `data_dir`."""

    url: str = field(default="", repr=False)
    data_dir: Path = Path("data")
    pool_size: int = POOL.pool_size
    acquire_timeout_seconds: float = POOL.acquire_timeout_seconds
    command_timeout_seconds: float = POOL.command_timeout_seconds

    def __post_init__(self) -> None:
        if self.url and not _is_database_url(self.url):
            raise ValueError("url takes postgresql://user:password@host:port/name, or a blank")
        require_between("pool_size", self.pool_size, 1, 1000)
        require_between("acquire_timeout_seconds", self.acquire_timeout_seconds, 0.1, 3600)
        require_between("command_timeout_seconds", self.command_timeout_seconds, 0.1, 3600)

    def at(self, url: str) -> DatabaseSettings:
        """The pool's settings for the database that was found: this one's URL or the embedded one's."""
        return DatabaseSettings(
            url, self.pool_size, self.acquire_timeout_seconds, self.command_timeout_seconds
        )


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Who may sign up, and what signs their tokens (blank: a secret kept in the database)."""

    signup: Literal["open", "closed"] = "open"
    token_secret: str = field(default="", repr=False)
    token_days: int = 30

    def __post_init__(self) -> None:
        if self.token_secret and len(self.token_secret.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"token_secret takes at least {MIN_SECRET_BYTES} bytes, or a blank")
        require_between("token_days", self.token_days, 1, 3650)


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """What operators show at `/status/` (blank: a token kept in the database), and whether at `/metrics`."""

    token: str = field(default="", repr=False)
    open_metrics: bool = False

    def __post_init__(self) -> None:
        if not is_visible_ascii(self.token):
            raise ValueError("token takes visible ASCII characters without spaces, or a blank")


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How much one caller may send."""

    body_bytes: int = 1_048_576
    span_metadata_bytes: int = 1_048_576

    def __post_init__(self) -> None:
        require_between("body_bytes", self.body_bytes, 1024, 2**30)
        require_between("span_metadata_bytes", self.span_metadata_bytes, 1024, SPAN_BODY_BYTES)


@dataclass(frozen=True, slots=True)
class Config:
    """All sections; `origins` names the file and the environment variables that were used.

    `models` are the providers by name, `model_keys` the values of the variables that they name.
    """

    server: ServerSettings = field(default_factory=ServerSettings)
    database: DatabaseChoice = field(default_factory=DatabaseChoice)
    accounts: AccountSettings = field(default_factory=AccountSettings)
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    supervisors: SupervisorSettings = field(default_factory=SupervisorSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    harness: HarnessSettings = field(default_factory=HarnessSettings)
    outbound: OutboundSettings = field(default_factory=OutboundSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    log: LogSettings = field(default_factory=LogSettings)
    models: Mapping[str, ProviderSettings] = field(default_factory=lambda: MappingProxyType({}))
    model_keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    origins: tuple[str, ...] = ()

    def require_models(self) -> None:
        """Raise ConfigError if the default provider is none, or the key of one is not there, or is no key."""
        if self.runs.default_provider not in {PROVIDER, *self.models}:
            known = ", ".join((PROVIDER, *self.models))
            raise ConfigError(
                f"runs.default_provider: takes one of {known}, not {self.runs.default_provider!r}"
            )
        for name, provider in self.models.items():
            if provider.api_key_env and name not in self.model_keys:
                raise ConfigError(
                    f"{MODELS}.{name}.api_key_env: the variable {provider.api_key_env} is not set; "
                    "it takes the key of the provider"
                )
            if not is_visible_ascii(self.model_keys.get(name, "")):
                raise ConfigError(
                    f"{MODELS}.{name}.api_key_env: the variable {provider.api_key_env} holds what is no key; "
                    "keys are visible ASCII characters without spaces and line breaks"
                )


NO_SECTIONS = frozenset({MODELS, "model_keys", "origins"})
SECTIONS = tuple(section.name for section in fields(Config) if section.name not in NO_SECTIONS)


@dataclass(frozen=True, slots=True)
class Written:
    """A value as it was written: in the file, or as the text of a variable; `origin` names its place."""

    section: str
    key: str
    value: object
    origin: str
    from_text: bool = False


def load_config(file: Path | None, environment: Mapping[str, str]) -> Config:
    """Read `file` (None: config.toml here, if there is one), then the overriding environment variables."""
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    of_file = [] if file is None else list(_in_file(file))
    of_environment = list(_in_environment(environment))
    config = Config(
        origins=(*(() if file is None else (str(file),)), *(each.origin for each in of_environment))
    )
    of_providers: list[Written] = []
    for written in (*of_file, *of_environment):
        if written.section in SECTIONS:
            config = _with_key(config, written)
        else:
            of_providers.append(written)
    if missing := config.harness.missing():
        raise ConfigError(f'harness.{missing}: is needed where harness.kind is "process"')
    providers = _providers(of_providers)
    keys = {
        name: environment[provider.api_key_env]
        for name, provider in providers.items()
        if environment.get(provider.api_key_env)
    }
    return replace(config, models=MappingProxyType(providers), model_keys=MappingProxyType(keys))


def _in_file(file: Path) -> Iterator[Written]:
    for section, keys in _read_toml(file).items():
        if section not in SECTIONS and section != MODELS:
            known = ", ".join((*SECTIONS, f"{MODELS}.<provider>"))
            raise ConfigError(f"{file}: there is no section [{section}]; there are {known}")
        if not isinstance(keys, dict):
            raise ConfigError(f"{file}: {section} is a section: write [{section}] and its keys below it")
        if section == MODELS:
            yield from _of_providers(file, keys)
        else:
            for key, value in keys.items():
                yield Written(section, key, value, f"{file}: {section}.{key}")


def _of_providers(file: Path, tables: Mapping[str, Any]) -> Iterator[Written]:
    for name, keys in tables.items():
        if not isinstance(keys, dict):
            raise ConfigError(f"{file}: {MODELS} holds providers: write [{MODELS}.<provider>] above {name}")
        if not keys:
            raise ConfigError(f"{file}: {MODELS}.{name}: is empty; it takes at least a base_url")
        for key, value in keys.items():
            yield Written(f"{MODELS}.{name}", key, value, f"{file}: {MODELS}.{name}.{key}")


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError, and what is no UTF-8
        raise ConfigError(f"{file}: is not TOML: {error}") from error


def _in_environment(environment: Mapping[str, str]) -> Iterator[Written]:
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        section, _, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if section == MODELS:
            provider, _, key = key.partition("__")
            section = f"{MODELS}.{provider}"
        elif section not in SECTIONS:
            key = ""
        if name != name.upper() or not key:
            raise ConfigError(
                f"{name}: takes the form {ENVIRONMENT_PREFIX}SECTION__KEY in capitals; "
                f"sections are {', '.join(SECTIONS)} and {MODELS}__PROVIDER"
            )
        yield Written(section, key, environment[name], name, from_text=True)


def _with_key(config: Config, written: Written) -> Config:
    settings = getattr(config, written.section)
    accepted = _accepted(type(settings), written)
    try:
        return replace(config, **{written.section: replace(settings, **{written.key: accepted})})
    except ValueError as error:
        raise ConfigError(f"{written.origin}: {error}") from error


def _providers(of_providers: list[Written]) -> dict[str, ProviderSettings]:
    """Each is built once all of its keys are known: what it has no default for may come from anywhere."""
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for written in of_providers:
        values.setdefault(written.section, {})[written.key] = _accepted(ProviderSettings, written)
        origins.setdefault(written.section, written.origin)
    providers = {}
    for section, keys in values.items():
        name, origin = section.removeprefix(f"{MODELS}."), origins[section].rpartition(": ")[0]
        at = f"{origin}: {section}" if origin else section
        if name == PROVIDER or not PROVIDER_NAME.fullmatch(name):
            raise ConfigError(
                f"{at}: a provider's name takes small letters, digits and _.-, and {PROVIDER} is taken"
            )
        if "base_url" not in keys:
            raise ConfigError(f"{at}.base_url: is missing; it takes the address of the provider")
        try:
            providers[name] = ProviderSettings(**keys)
        except ValueError as error:
            raise ConfigError(f"{at}: {error}") from error
    return providers


def _accepted(settings: type, written: Written) -> Any:
    """The value by the type of its key; raises ConfigError."""
    hints = get_type_hints(settings)
    if written.key not in hints:
        raise ConfigError(
            f"{written.origin}: there is no such key; [{written.section}] has {', '.join(hints)}"
        )
    secret = not next(known.repr for known in fields(settings) if known.name == written.key)
    reader = reader_of(hints[written.key])
    try:
        return reader.from_text(str(written.value)) if written.from_text else reader.from_toml(written.value)
    except ValueError as error:
        shown = "" if secret else f", not {written.value!r}"
        raise ConfigError(f"{written.origin}: takes {reader.takes}{shown}") from error


def _is_database_url(text: str) -> bool:
    """Whether the driver can take it apart; what it finds there it judges itself."""
    try:
        parts = urlsplit(text)
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        return False
    return parts.scheme in {"postgresql", "postgres"}
