"""The configuration: a TOML file, overridden by `HOSTSVC__SECTION__KEY`, as the settings each layer owns."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal, get_type_hints
from urllib.parse import urlsplit

from hostsvc.clients.guarded_http import OutboundSettings
from hostsvc.clients.harness_settings import HarnessSettings
from hostsvc.config_values import reader_of
from hostsvc.logs import LogSettings
from storage.pool import DatabaseSettings
from supervisors.duties.retention import RetentionSettings
from supervisors.settings import RunSettings, SupervisorSettings, require_between
from web.settings import LEAST_SECRET_BYTES, SPAN_BODY_BYTES

DEFAULT_FILE = Path("config.toml")
ENVIRONMENT_PREFIX = "HOSTSVC__"
POOL = DatabaseSettings(url="postgresql://")  # for its defaults


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
        if self.base_url and not _is_base_url(self.base_url):
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
        if self.token_secret and len(self.token_secret.encode()) < LEAST_SECRET_BYTES:
            raise ValueError(f"token_secret takes at least {LEAST_SECRET_BYTES} bytes, or a blank")
        require_between("token_days", self.token_days, 1, 3650)


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """What operators show at `/status/` (blank: a token kept in the database), and whether at `/metrics`."""

    token: str = field(default="", repr=False)
    open_metrics: bool = False

    def __post_init__(self) -> None:
        if not all("!" <= character <= "~" for character in self.token):
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
    """All sections; `origins` names the file and the environment variables that were used."""

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
    origins: tuple[str, ...] = ()


SECTIONS = tuple(section.name for section in fields(Config) if section.name != "origins")


def load_config(file: Path | None, environment: Mapping[str, str]) -> Config:
    """Read `file` (None: config.toml here, if there is one), then the overriding environment variables."""
    config = Config()
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    if file is not None:
        config = _with_file(config, file)
    config = _with_environment(config, environment)
    if missing := config.harness.missing():
        raise ConfigError(f'harness.{missing}: is needed where harness.kind is "process"')
    return config


def _with_file(config: Config, file: Path) -> Config:
    for section, keys in _read_toml(file).items():
        if section not in SECTIONS:
            raise ConfigError(f"{file}: there is no section [{section}]; there are {', '.join(SECTIONS)}")
        if not isinstance(keys, dict):
            raise ConfigError(f"{file}: {section} is a section: write [{section}] and its keys below it")
        for key, value in keys.items():
            config = _with_key(config, section, key, value, origin=f"{file}: {section}.{key}")
    return replace(config, origins=(*config.origins, str(file)))


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError, and what is no UTF-8
        raise ConfigError(f"{file}: is not TOML: {error}") from error


def _with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        section, _, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if name != name.upper() or section not in SECTIONS or not key:
            raise ConfigError(
                f"{name}: takes the form {ENVIRONMENT_PREFIX}SECTION__KEY in capitals; "
                f"sections are {', '.join(SECTIONS)}"
            )
        config = _with_key(config, section, key, environment[name], origin=name, from_text=True)
        config = replace(config, origins=(*config.origins, name))
    return config


def _with_key(
    config: Config, section: str, key: str, value: object, *, origin: str, from_text: bool = False
) -> Config:
    settings = getattr(config, section)
    hints = get_type_hints(type(settings))
    if key not in hints:
        raise ConfigError(f"{origin}: there is no such key; [{section}] has {', '.join(hints)}")
    secret = not next(known.repr for known in fields(settings) if known.name == key)
    reader = reader_of(hints[key])
    try:
        accepted = reader.from_text(str(value)) if from_text else reader.from_toml(value)
    except ValueError as error:
        shown = "" if secret else f", not {value!r}"
        raise ConfigError(f"{origin}: takes {reader.takes}{shown}") from error
    try:
        return replace(config, **{section: replace(settings, **{key: accepted})})
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error


def _is_database_url(text: str) -> bool:
    """Whether the driver can take it apart; what it finds there it judges itself."""
    try:
        parts = urlsplit(text)
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        return False
    return parts.scheme in {"postgresql", "postgres"}


def _is_base_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and port_is_valid
        and not parts.query
        and not parts.fragment
        and not text.endswith("/")
        and text.isprintable()
        and " " not in text
    )
