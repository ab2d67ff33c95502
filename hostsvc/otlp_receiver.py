"""The operator's receiver of spans, named by the variables that all SDKs of OpenTelemetry understand."""

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import unquote

from yarl import URL

from hostsvc.llm.providers import is_base_url
from hostsvc.outbound.bounded_http import bounded_session
from hostsvc.outbound.connection import MAX_BYTES, Connection
from hostsvc.outbound.guarded_http import retry_after
from supervisors.clock import Clock
from supervisors.maintenance.span_exporter import Post
from supervisors.outbound import OutboundAnswer
from web.settings import VERSION

PREFIX = "OTEL_EXPORTER_OTLP_"
# The values that the service takes, the default first.
CHOICES = {"PROTOCOL": ("http/protobuf",), "COMPRESSION": ("none", "gzip")}


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """Where spans go, and what the service calls itself there. `certificate`: a file with an authority's."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_seconds: float
    compression: str
    certificate: str
    resource: Mapping[str, str]


def read_otlp_settings(environment: Mapping[str, str]) -> OtlpSettings | None:
    """Return the settings; None if no receiver is named. Raise ValueError, which names the variable."""

    def value_of(name: str) -> str:
        """Return the variable for traces alone, else the one for all signals; "" if neither is set."""
        value = environment.get(f"{PREFIX}TRACES_{name}", "") or environment.get(PREFIX + name, "")
        choices = CHOICES.get(name, (value,))
        if value and value not in choices:
            raise ValueError(f"{PREFIX}{name} must be {' or '.join(choices)}, got {value!r}")
        return value or choices[0]

    url = environment.get(f"{PREFIX}TRACES_ENDPOINT", "")
    if not url and (base := environment.get(f"{PREFIX}ENDPOINT", "")):
        url = f"{base.rstrip('/')}/v1/traces"
    if not url or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if not is_base_url(url):
        raise ValueError(f"{PREFIX}ENDPOINT must be http(s)://host[:port][/path], got {url!r}")
    milliseconds = value_of("TIMEOUT") or "10000"
    if not re.fullmatch(r"[1-9][0-9]{0,5}", milliseconds):
        raise ValueError(f"{PREFIX}TIMEOUT must be 1 to 999999 milliseconds, got {milliseconds!r}")
    _ = value_of("PROTOCOL")
    resource = {"service.version": VERSION} | _pairs(environment.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    return OtlpSettings(
        url=url,
        headers=_pairs(value_of("HEADERS")),
        timeout_seconds=int(milliseconds) / 1000,
        compression=value_of("COMPRESSION"),
        certificate=value_of("CERTIFICATE"),
        resource=resource | {"service.name": environment.get("OTEL_SERVICE_NAME") or "hostsvc"},
    )


def _pairs(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, where values are encoded as in URLs."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


@asynccontextmanager
async def open_otlp_receiver(settings: OtlpSettings, clock: Clock) -> AsyncIterator[Post]:
    """Yield what posts to the receiver. Its address is the operator's, so it may be a private one."""
    url, seconds, file = URL(settings.url), settings.timeout_seconds, settings.certificate
    headers = {**settings.headers, "Content-Type": "application/x-protobuf"}
    if settings.compression == "gzip":
        headers["Content-Encoding"] = "gzip"
    authorities = ssl.create_default_context(cafile=file) if file else True
    async with bounded_session(MAX_BYTES, ssl=authorities) as session:

        async def post(body: bytes) -> OutboundAnswer:
            """Send a request and return the answer, of whatever status. Raise OutboundError."""
            if settings.compression == "gzip":
                body = await asyncio.to_thread(gzip.compress, body, 1)
            connection = Connection(session, url, url.host or "", seconds)
            with connection.translated():
                async with (
                    asyncio.timeout(seconds),
                    session.post(url, data=BytesIO(body), headers=headers, allow_redirects=False) as response,
                ):
                    content = b"".join([piece async for piece in connection.read(response)])
            pause = retry_after(response.headers.get("Retry-After", ""), clock.now())
            return OutboundAnswer(response.status, "", content, pause)

        yield post
