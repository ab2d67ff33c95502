"""The configuration: a TOML file, overridden by `HOSTSVC__SECTION__KEY`, as the settings of each layer."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_type_hints
from urllib.parse import urlsplit

from hostsvc.config_values import is_base_url, is_visible_ascii, parser_for
from hostsvc.llm.providers import ProviderSettings
from hostsvc.logs import LogSettings
from hostsvc.outbound.guarded_http import OutboundSettings
from hostsvc.process_harness.settings import HarnessSettings
from storage.encryption import parse_key
from storage.history.span_inserts import MAX_SPANS_PER_TRACE
from storage.organization_limits import StorageLimits
from storage.postgres.pool import DatabaseSettings
from supervisors.llm.inbox_model import PROVIDER
from supervisors.maintenance.retention_cleaner import RetentionSettings
from supervisors.settings import RunSettings, SupervisorSettings, require_between
from web.settings import MIN_SECRET_BYTES, SPAN_BODY_BYTES

DEFAULT_FILE = Path("config.toml")
ENVIRONMENT_PREFIX = "HOSTSVC__"
POOL_DEFAULTS = DatabaseSettings(url="postgresql://")
MODELS = "models"  # contains one section for each model provider instead of keys
PROVIDER_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class ConfigError(Exception):
    """The configuration is invalid; the message names the key, what it must be, and what was given."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The address to listen on and the one that clients use; port 0 selects any free port.

    `max_connections` is lowered to what the limit of open files allows.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    base_url: str = ""
    drain_seconds: float = 10.0
    max_connections: int = 10_000
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()

    def __post_init__(self) -> None:
        if not self.host.strip():
            raise ValueError("host must be an address or a host name, got a blank")
        require_between("port", self.port, 0, 65_535)
        require_between("drain_seconds", self.drain_seconds, 0, 3600)
        require_between("max_connections", self.max_connections, 16, 65_536)
        if self.base_url and (self.base_url.endswith("/") or not is_base_url(self.base_url)):
            raise ValueError(
                f"base_url must be http(s)://host[:port][/path] without a final slash, got {self.base_url!r}"
            )


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """The PostgreSQL to use: the server at `url`, or (if blank) an embedded one that stores in `data_dir`."""

    url: str = field(default="", repr=False)
    data_dir: Path = Path("data")
    pool_size: int = POOL_DEFAULTS.pool_size
    acquire_timeout_seconds: float = POOL_DEFAULTS.acquire_timeout_seconds
    command_timeout_seconds: float = POOL_DEFAULTS.command_timeout_seconds

    def __post_init__(self) -> None:
        if self.url and not _is_database_url(self.url):
            raise ValueError("url must be postgresql://user:password@host:port/name or blank")
        require_between("pool_size", self.pool_size, 1, 1000)
        require_between("acquire_timeout_seconds", self.acquire_timeout_seconds, 0.1, 3600)
        require_between("command_timeout_seconds", self.command_timeout_seconds, 0.1, 3600)

    @property
    def name(self) -> str:
        """Return the name of the database without its password."""
        if not self.url:
            return f"the embedded database in {self.data_dir}"
        parts = urlsplit(self.url)
        return f"the database {parts.netloc.rpartition('@')[2]}{parts.path}"

    def pool_settings(self, url: str) -> DatabaseSettings:
        """Return the settings of a pool on `url`: the configured database or the embedded one."""
        return DatabaseSettings(
            url, self.pool_size, self.acquire_timeout_seconds, self.command_timeout_seconds
        )


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """The sign-up policy, the secret that signs user tokens (blank: one stored in the database), and the keys
    under which secrets are stored (none: in clear).
    """

    signup: Literal["open", "closed"] = "open"
    token_secret: str = field(default="", repr=False)
    token_days: int = 30
    encryption_keys: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.token_secret and len(self.token_secret.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"token_secret must have at least {MIN_SECRET_BYTES} bytes or be blank")
        require_between("token_days", self.token_days, 1, 3650)
        for number, key in enumerate(self.encryption_keys, 1):
            _require_encryption_key(number, key)


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The token for `/status/` (blank: one stored in the database), and whether `/metrics` needs it, too."""

    token: str = field(default="", repr=False)
    open_metrics: bool = False

    def __post_init__(self) -> None:
        if not is_visible_ascii(self.token):
            raise ValueError("token must consist of visible ASCII characters without spaces, or be blank")


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """The most that a client or an organization may send, store or ask for.

    Sizes are in bytes. 0 stands for no limit where the configuration file says so.
    """

    body_bytes: int = 1_048_576
    span_metadata_bytes: int = 1_048_576
    signups_per_hour: int = 60
    streams_per_caller: int = 8
    streams: int = 64
    spans_per_trace: int = MAX_SPANS_PER_TRACE
    tags_per_agent: int = 1000
    requests_per_minute: int = 0
    anonymous_requests_per_minute: int = 600
    agents: int = 100_000
    waiting_notifications: int = 1_000_000
    document_bytes: int = 10 * 2**30
    concurrent_runs: int = 0

    def __post_init__(self) -> None:
        require_between("body_bytes", self.body_bytes, 1024, 2**30)
        require_between("span_metadata_bytes", self.span_metadata_bytes, 1024, SPAN_BODY_BYTES)
        require_between("signups_per_hour", self.signups_per_hour, 0, 10_000)
        require_between("streams_per_caller", self.streams_per_caller, 1, 1000)
        require_between("streams", self.streams, 1, 10_000)
        require_between("spans_per_trace", self.spans_per_trace, 1, 10**7)
        require_between("tags_per_agent", self.tags_per_agent, 1, 1000)
        for name in ("requests_per_minute", "anonymous_requests_per_minute"):
            require_between(name, getattr(self, name), 0, 10**6)
        for name in ("agents", "waiting_notifications", "concurrent_runs"):
            require_between(name, getattr(self, name), 0, 10**9)
        require_between("document_bytes", self.document_bytes, 0, 2**60)

    def of_storage(self) -> StorageLimits:
        """Return the limits on what each organization may store."""
        return StorageLimits(self.agents, self.waiting_notifications, self.document_bytes)


@dataclass(frozen=True, slots=True)
class Config:
    """All sections; `origins` names the file and the environment variables they came from.

    `models` contains the model providers by name, `model_keys` their API keys by the same names.
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
        """Raise ConfigError if the default provider is unknown, or if an API key is missing or malformed."""
        if self.runs.default_provider not in {PROVIDER, *self.models}:
            known = ", ".join((PROVIDER, *self.models))
            raise ConfigError(
                f"runs.default_provider must be one of {known}, got {self.runs.default_provider!r}"
            )
        for name, provider in self.models.items():
            variable = f"{MODELS}.{name}.api_key_env: the variable {provider.api_key_env}"
            if provider.api_key_env and name not in self.model_keys:
                raise ConfigError(f"{variable} is not set; set it to the API key of the provider")
            if not is_visible_ascii(self.model_keys.get(name, "")):
                raise ConfigError(
                    f"{variable} does not hold an API key; "
                    "a key consists of visible ASCII characters without spaces and line breaks"
                )


NOT_SECTIONS = frozenset({MODELS, "model_keys", "origins"})
SECTIONS = tuple(section.name for section in fields(Config) if section.name not in NOT_SECTIONS)
SUBSECTIONS = ("harness.limits",)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key with its unparsed value; `origin` is the file or the environment variable it stands in."""

    section: str
    key: str
    value: object
    origin: str
    is_text: bool = False  # from a variable, so any type is written as text


def load_config(file: Path | None, environment: Mapping[str, str]) -> Config:
    """Read `file` (None: config.toml in this directory, if it exists), then the environment variables.

    Raise ConfigError if anything in them is invalid.
    """
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    file_entries = [] if file is None else list(_file_entries(file))
    variables = list(_environment_entries(environment))
    origins = (*([] if file is None else [str(file)]), *(entry.origin for entry in variables))
    config = Config(origins=origins)
    provider_entries: list[ConfigEntry] = []
    for entry in (*file_entries, *variables):
        if entry.section in (*SECTIONS, *SUBSECTIONS):
            config = _with_entry(config, entry)
        else:
            provider_entries.append(entry)
    if missing := config.harness.missing():
        raise ConfigError(f'harness.{missing} must be set because harness.kind is "process"')
    providers = _providers(provider_entries)
    keys = {
        name: environment[provider.api_key_env]
        for name, provider in providers.items()
        if environment.get(provider.api_key_env)
    }
    return replace(config, models=MappingProxyType(providers), model_keys=MappingProxyType(keys))


def _file_entries(file: Path) -> Iterator[ConfigEntry]:
    for section, keys in _read_toml(file).items():
        if section not in SECTIONS and section != MODELS:
            known = ", ".join((*SECTIONS, f"{MODELS}.<provider>"))
            raise ConfigError(f"{file}: unknown section [{section}]; the sections are {known}")
        if not isinstance(keys, dict):
            raise ConfigError(f"{file}: {section} is a section: write [{section}] and its keys below it")
        if section == MODELS:
            yield from _file_provider_entries(file, keys)
        else:
            yield from _file_section_entries(file, section, keys)


def _file_section_entries(file: Path, section: str, keys: Mapping[str, Any]) -> Iterator[ConfigEntry]:
    for key, value in keys.items():
        name = f"{section}.{key}"
        if name not in SUBSECTIONS:
            yield ConfigEntry(section, key, value, str(file))
        elif isinstance(value, dict):
            yield from _file_section_entries(file, name, value)
        else:
            raise ConfigError(f"{file}: {name} is a section: write [{name}] and its keys below it")


def _file_provider_entries(file: Path, tables: Mapping[str, Any]) -> Iterator[ConfigEntry]:
    for name, keys in tables.items():
        if not isinstance(keys, dict):
            raise ConfigError(
                f"{file}: {MODELS} contains a section for each provider: "
                f"write [{MODELS}.<provider>] above {name}"
            )
        if not keys:
            raise ConfigError(f"{file}: {MODELS}.{name} is empty: set at least base_url")
        for key, value in keys.items():
            yield ConfigEntry(f"{MODELS}.{name}", key, value, str(file))


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError, or UnicodeDecodeError
        raise ConfigError(f"{file}: is not valid TOML: {error}") from error


def _environment_entries(environment: Mapping[str, str]) -> Iterator[ConfigEntry]:
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        section, _, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if section == MODELS:
            provider, _, key = key.partition("__")
            section = f"{MODELS}.{provider}"
        elif section not in SECTIONS:
            key = ""
        elif f"{section}.{key.partition('__')[0]}" in SUBSECTIONS:
            subsection, _, key = key.partition("__")
            section = f"{section}.{subsection}"
        if name != name.upper() or not key:
            raise ConfigError(
                f"{name} must have the form {ENVIRONMENT_PREFIX}SECTION__KEY in capitals; "
                f"SECTION is one of {', '.join(SECTIONS).upper()} or {MODELS.upper()}__PROVIDER"
            )
        yield ConfigEntry(section, key, environment[name], name, is_text=True)


def _with_entry(config: Config, entry: ConfigEntry) -> Config:
    section, _, subsection = entry.section.partition(".")
    settings = getattr(config, section)
    part = getattr(settings, subsection) if subsection else settings
    value = _parse(type(part), entry)
    try:
        part = replace(part, **{entry.key: value})
        settings = replace(settings, **{subsection: part}) if subsection else part
        return replace(config, **{section: settings})
    except ValueError as error:  # its message begins with the key
        raise ConfigError(f"{entry.origin}: {entry.section}.{error}") from error


def _providers(entries: list[ConfigEntry]) -> dict[str, ProviderSettings]:
    """Build each provider once all of its keys are known: file and variables may each set some of them."""
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for entry in entries:
        values.setdefault(entry.section, {})[entry.key] = _parse(ProviderSettings, entry)
        origins.setdefault(entry.section, entry.origin)
    providers = {}
    for section, keys in values.items():
        name, location = section.removeprefix(f"{MODELS}."), f"{origins[section]}: {section}"
        if name == PROVIDER or not PROVIDER_NAME.fullmatch(name):
            raise ConfigError(
                f"{location}: the name of a provider must consist of lowercase letters, digits and _.-, "
                f"and must not be {PROVIDER}"
            )
        if "base_url" not in keys:
            raise ConfigError(f"{location}.base_url is missing: set it to the address of the provider")
        try:
            providers[name] = ProviderSettings(**keys)
        except ValueError as error:
            raise ConfigError(f"{location}.{error}") from error
    return providers


def _parse(settings: type, entry: ConfigEntry) -> Any:
    """Return the entry's value as the type that `settings` declares. Raise ConfigError if it does not fit."""
    hints = get_type_hints(settings)
    if entry.key not in hints:
        raise ConfigError(
            f"{entry.origin}: unknown key {entry.section}.{entry.key}; "
            f"[{entry.section}] has {', '.join(hints)}"
        )
    is_secret = not next(setting.repr for setting in fields(settings) if setting.name == entry.key)
    parser = parser_for(hints[entry.key])
    try:
        return parser.from_text(str(entry.value)) if entry.is_text else parser.from_toml(entry.value)
    except ValueError as error:
        given = "" if is_secret else f", got {entry.value!r}"
        raise ConfigError(
            f"{entry.origin}: {entry.section}.{entry.key} must be {parser.takes}{given}"
        ) from error


def _require_encryption_key(number: int, key: str) -> None:
    """Raise ValueError, whose message does not contain the key."""
    try:
        parse_key(key)
    except ValueError as error:
        raise ValueError(
            f"encryption_keys must be 32 bytes each, in URL-safe base64, but number {number} is not: {error}"
        ) from None


def _is_database_url(text: str) -> bool:
    """Return whether the driver can parse this URL; the driver itself judges the parts."""
    try:
        parts = urlsplit(text)
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        return False
    return parts.scheme in {"postgresql", "postgres"}
