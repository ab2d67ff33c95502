"""The operator's receiver of spans, named by the variables that all SDKs of OpenTelemetry understand."""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import unquote

from yarl import URL

from hostsvc.outbound.bounded_http import bounded_session
from hostsvc.outbound.connection import MAX_BYTES, Connection
from supervisors.clock import Clock
from supervisors.maintenance.span_exporter import Post
from supervisors.outbound import OutboundAnswer
from web.settings import VERSION

PREFIX = "OTEL_EXPORTER_OTLP_"
# The default of each variable, its values, and what an error says of them.
VARIABLES = {
    "ENDPOINT": ("", r"(https?://[^\s/]+(/\S*)?)?", "http(s)://host[:port][/path]"),
    "PROTOCOL": ("http/protobuf", "http/protobuf", "http/protobuf"),
    "COMPRESSION": ("none", "none|gzip", "none or gzip"),
    "TIMEOUT": ("10000", "[1-9][0-9]{0,5}", "1 to 999999 milliseconds"),
    "HEADERS": ("", ".*", "a list of name=value"),
}


class OtlpSettings(NamedTuple):
    """Where and how spans are sent, and what the service calls itself there."""

    url: str
    headers: Mapping[str, str]
    timeout_seconds: float
    is_compressed: bool
    resource: Mapping[str, str]


def read_otlp_settings(environment: Mapping[str, str]) -> OtlpSettings | None:
    """Return the settings; None if no receiver is named. Raise ValueError, which names the variable."""
    values: dict[str, str] = {}
    for name, (default, pattern, words) in VARIABLES.items():
        of_traces = environment.get(f"{PREFIX}TRACES_{name}")
        values[name] = value = of_traces or environment.get(PREFIX + name) or default
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{PREFIX}{name} must be {words}, got {value!r}")
    if not values["ENDPOINT"] or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    url = environment.get(f"{PREFIX}TRACES_ENDPOINT") or f"{values['ENDPOINT'].rstrip('/')}/v1/traces"
    resource = {"service.version": VERSION, "service.name": environment.get("OTEL_SERVICE_NAME") or "hostsvc"}
    resource = _pairs(environment.get("OTEL_RESOURCE_ATTRIBUTES", "")) | resource
    is_compressed, seconds = values["COMPRESSION"] == "gzip", int(values["TIMEOUT"]) / 1000
    return OtlpSettings(url, _pairs(values["HEADERS"]), seconds, is_compressed, resource)


def _pairs(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, where values are encoded as in URLs."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


@asynccontextmanager
async def open_otlp_receiver(settings: OtlpSettings, clock: Clock) -> AsyncIterator[Post]:
    """Yield what posts to the receiver. Its address is the operator's, so it may be a private one."""
    url, seconds, is_compressed = URL(settings.url), settings.timeout_seconds, settings.is_compressed
    encoding = {"Content-Encoding": "gzip"} if is_compressed else {}
    headers = {**settings.headers, "Content-Type": "application/x-protobuf", **encoding}
    async with bounded_session(MAX_BYTES) as session:

        async def post(body: bytes) -> OutboundAnswer:
            content = await asyncio.to_thread(gzip.compress, body, 1) if is_compressed else body
            to = Connection(session, url, url.host or "", seconds)
            with to.translated():
                async with asyncio.timeout(seconds):
                    return await to.post(headers, content, clock)

        yield post
