"""The configuration: the settings of each layer, which `hostsvc.config_reader` reads."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from hostsvc.llm.providers import ProviderSettings, is_base_url
from hostsvc.logs import LogSettings
from hostsvc.otlp_receiver import OtlpSettings
from hostsvc.outbound.guarded_http import OutboundSettings
from hostsvc.outbound.mail import MailSettings
from hostsvc.process_harness.settings import HarnessSettings
from storage.encryption import parse_key
from storage.postgres.pool import DatabaseSettings
from supervisors.llm.inbox_model import PROVIDER
from supervisors.maintenance.retention_cleaner import RetentionSettings
from supervisors.settings import Bounded, RunSettings, SupervisorSettings, TracingSettings, between
from web.settings import MIN_SECRET_BYTES, LimitSettings

POOL_DEFAULTS = DatabaseSettings(url="postgresql://")
REMOVED_KEYS: Mapping[str, str] = {
    "first_user_id": "delete it, and set user; bubblewrap keeps the runs of one user apart",
    "streams": "delete it; what is sent for long shares the room for requests in flight",
    "streams_per_caller": "delete it; an organization has at most half of the room that is left",
}
MODELS = "models"  # contains one section for each model provider instead of keys
ROLES = ("http", "runs", "chores")
HTTP = "http"
MAX_WORKERS = 64
MIN_CONNECTIONS = 16
MAX_NAME_CHARACTERS = 100
UNSPECIFIED = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- nobody can connect to these
NOT_KEYS = frozenset({"model_keys", "otlp", "origins"})  # of Config: they are not in the file


class ConfigError(Exception):
    """The configuration is invalid; each message names the key and what it must be."""

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


@dataclass(frozen=True, slots=True)
class ServerSettings(Bounded):
    """The address to listen on and the one that clients use; port 0 selects any free port.

    `max_connections` is lowered to what the limit of open files allows.
    """

    host: str = "127.0.0.1"
    port: int = between(8080, 0, 65_535)
    base_url: str = ""
    drain_seconds: float = between(10.0, 0, 3600)
    max_connections: int = between(10_000, MIN_CONNECTIONS, 65_536)
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()

    def __post_init__(self) -> None:
        if not self.host.strip():
            raise ValueError("host must be an address or a host name, got a blank")
        Bounded.__post_init__(self)
        if self.base_url and (self.base_url.endswith("/") or not is_base_url(self.base_url)):
            raise ValueError(
                f"base_url must be http(s)://host[:port][/path] without a final slash, got {self.base_url!r}"
            )


@dataclass(frozen=True, slots=True)
class NodeSettings(Bounded):
    """The name of this node (blank: that of its host), what it does, and how many workers share that.

    Each worker is a node of its own.
    """

    name: str = ""
    roles: tuple[str, ...] = ROLES
    workers: int = between(1, 1, MAX_WORKERS)

    def __post_init__(self) -> None:
        if not self.name.isprintable() or len(self.name) > MAX_NAME_CHARACTERS:
            raise ValueError(f"name must have at most {MAX_NAME_CHARACTERS} visible characters")
        if not self.roles or not set(self.roles) <= set(ROLES):
            raise ValueError(f"roles must be one or more of {', '.join(ROLES)}, got {list(self.roles)}")
        Bounded.__post_init__(self)

    @property
    def name_or_host(self) -> str:
        """Return the name of this node, which is that of its host unless it has one."""
        return self.name or socket.gethostname()


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The address of this machine at which other machines reach its nodes; blank: loopback."""

    address: str = ""

    def __post_init__(self) -> None:
        if self.address != self.address.strip() or self.address in UNSPECIFIED:
            raise ValueError(
                "address must be an address of this machine that others can connect to, or blank, "
                f"got {self.address!r}"
            )


@dataclass(frozen=True, slots=True)
class DatabaseChoice(Bounded):
    """The PostgreSQL to use: the server at `url`, or (if blank) an embedded one that stores in `data_dir`."""

    url: str = field(default="", repr=False)
    data_dir: Path = Path("data")
    pool_size: int = between(POOL_DEFAULTS.pool_size, 1, 1000)
    acquire_timeout_seconds: float = between(POOL_DEFAULTS.acquire_timeout_seconds, 0.1, 3600)
    command_timeout_seconds: float = between(POOL_DEFAULTS.command_timeout_seconds, 0.1, 3600)

    def __post_init__(self) -> None:
        if self.url and not _is_database_url(self.url):
            raise ValueError("url must be postgresql://user:password@host:port/name or blank")
        Bounded.__post_init__(self)

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
class AccountSettings(Bounded):
    """The sign-up policy, the secret that signs user tokens (blank: one stored in the database), and the keys
    under which secrets are stored (none: in clear).
    """

    signup: Literal["open", "closed"] = "open"
    token_secret: str = field(default="", repr=False)
    token_days: int = between(30, 1, 3650)
    encryption_keys: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.token_secret and len(self.token_secret.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"token_secret must have at least {MIN_SECRET_BYTES} bytes or be blank")
        Bounded.__post_init__(self)
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
class Config:
    """All sections; `origins` names the file and the environment variables they came from.

    `models` contains the model providers by name, `model_keys` their API keys by the same names.
    """

    server: ServerSettings = field(default_factory=ServerSettings)
    database: DatabaseChoice = field(default_factory=DatabaseChoice)
    node: NodeSettings = field(default_factory=NodeSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    accounts: AccountSettings = field(default_factory=AccountSettings)
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    supervisors: SupervisorSettings = field(default_factory=SupervisorSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    harness: HarnessSettings = field(default_factory=HarnessSettings)
    outbound: OutboundSettings = field(default_factory=OutboundSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    mail: MailSettings = field(default_factory=MailSettings)
    log: LogSettings = field(default_factory=LogSettings)
    models: Mapping[str, ProviderSettings] = field(default_factory=lambda: MappingProxyType({}))
    model_keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    otlp: OtlpSettings | None = None  # from variables alone
    origins: tuple[str, ...] = ()

    def require_models(self) -> None:
        """Raise ConfigError if the default provider is unknown, or if an API key is missing or malformed."""
        if errors := tuple(self.model_errors()):
            raise ConfigError(*errors)

    def model_errors(self) -> Iterator[str]:
        """Yield a message for each reason why `require_models` would raise."""
        if self.runs.default_provider not in {PROVIDER, *self.models}:
            known = ", ".join((PROVIDER, *self.models))
            yield f"runs.default_provider must be one of {known}, got {self.runs.default_provider!r}"
        for name, provider in self.models.items():
            variable = f"{MODELS}.{name}.api_key_env: the variable {provider.api_key_env}"
            if provider.api_key_env and name not in self.model_keys:
                yield f"{variable} is not set; set it to the API key of the provider"
            elif not is_visible_ascii(self.model_keys.get(name, "")):
                yield (
                    f"{variable} does not hold an API key; "
                    "a key consists of visible ASCII characters without spaces and line breaks"
                )


def is_visible_ascii(text: str) -> bool:
    """Return whether a header can hold this text as a key or token."""
    return all("!" <= character <= "~" for character in text)


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
