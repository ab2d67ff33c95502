"""The client for outbound calls: the addresses it refuses, what it sends, and how it reads responses."""

import asyncio
import base64
import gzip
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address
from pathlib import Path
from uuid import UUID

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer
from standardwebhooks import WebhookVerificationError

from hostsvc.outbound.connection import MAX_BYTES
from hostsvc.outbound.guarded_http import (
    MAX_CALLS,
    GuardedHttp,
    OutboundSettings,
    PublicNames,
    open_guarded_http,
)
from supervisors.clock import SystemClock
from supervisors.outbound import AddressRefused, NoAnswer, NotConnected, OutboundAnswer, OutboundCall
from tests.processor_time import least_seconds
from tests.raw_server import raw_server
from tests.receiver import Receiver, answering, receiving
from tests.supervisors.held_clock import HeldClock

Server = Callable[..., Awaitable[TestServer]]

CALLER = UUID(int=1)
SECRET = "/?token=hunter2"
BODY = b'{"type":"agent.created","data":{"name":"J\xc3\xb6rg"}}'
PRIVATE_ALLOWED = OutboundSettings(allow_private=True, timeout_seconds=5)
SHORT_TIMEOUT = OutboundSettings(allow_private=True, timeout_seconds=0.3)


@dataclass(slots=True)
class Names(AbstractResolver):
    """A resolver that gives every name these addresses, and records the names."""

    addresses: tuple[str, ...]
    resolved: list[str] = field(default_factory=list)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.resolved.append(host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def post(
    url: str,
    settings: OutboundSettings = PRIVATE_ALLOWED,
    names: AbstractResolver | None = None,
    secret: str = "",
    headers: Mapping[str, str] | None = None,
) -> OutboundAnswer:
    """Send one call with a new client."""
    async with open_guarded_http(settings, SystemClock(), names) as client:
        return await client.post(OutboundCall("msg-1", CALLER, url, BODY, secret, headers or {}))


async def test_call_posts_json_and_returns_the_response(receiver: Receiver) -> None:
    receiver.answer = answering(202, '{"fine": true}', Content_Type="application/json")
    answer = await post(receiver.url, headers={"Idempotency-Key": "msg-1"})
    assert answer == OutboundAnswer(202, "application/json", b'{"fine": true}')
    [received] = receiver.requests
    headers = received.headers
    assert received.body == BODY
    assert headers["Content-Type"] == "application/json"
    assert headers["Idempotency-Key"] == "msg-1"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"] == "hostsvc"


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("whsec_" + base64.b64encode(b"a secret of bytes").decode(), b"a secret of bytes"),
        ("whsec_YQ", b"a"),
        ("just some text, ä", "just some text, ä".encode()),
        ("whsec_", b"whsec_"),
        ("whsec_A", b"whsec_A"),
    ],
)
async def test_a_call_is_signed_as_a_standard_webhook(receiver: Receiver, secret: str, key: bytes) -> None:
    await post(receiver.url, secret=secret)
    [received] = receiver.requests
    assert received.id == "msg-1"
    assert received.verified_by(key) == {"type": "agent.created", "data": {"name": "Jörg"}}
    with pytest.raises(WebhookVerificationError):
        received.verified_by(b"another")


async def test_call_without_secret_has_id_and_time_but_no_signature(
    receiver: Receiver,
) -> None:
    await post(receiver.url)
    [received] = receiver.requests
    headers = received.headers
    assert received.id == "msg-1"
    sent_at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert abs(SystemClock().now() - sent_at) < timedelta(seconds=10)
    assert "webhook-signature" not in headers


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (
            "http://127.0.0.1/",
            "The address 127.0.0.1 is loopback; outbound calls go to public addresses only.",
        ),
        ("http://127.0.0.1./", "The address 127.0.0.1. is loopback"),
        ("http://\uff11\uff12\uff17.0.0.1/", "The address 127.0.0.1 is loopback"),
        ("http://[::1]/", "The address ::1 is loopback"),
        ("http://[::ffff:10.0.0.1]:80/", f"The address {IPv6Address('::ffff:10.0.0.1')} is private"),
        ("http://[64:ff9b::7f00:1]/", "The address 64:ff9b::7f00:1 is loopback"),
        ("http://169.254.169.254/latest/", "The address 169.254.169.254 is link-local"),
        ("http://0.0.0.0/", "The address 0.0.0.0 is unspecified"),
        ("http://[::]/", "The address :: is unspecified"),
        ("http://127.1/", "127.1 is not a valid address."),
        ("http://0x7f.1/", "0x7f.1 is not a valid address."),
        ("http://2130706433/", "2130706433 is not a valid address."),
        ("http://0177.0.0.1./", "0177.0.0.1. is not a valid address."),
        ("http://1.1.1.1./", "1.1.1.1. is not a valid address."),
        ("http://localhost/", "The address localhost is loopback"),
        ("http://LOCALHOST./", "The address localhost. is loopback"),
        ("http://any.localhost/", "The address any.localhost is loopback"),
        ("http://user:hunter2@example.org/", "The address of example.org must not contain credentials."),
        ("http://user@example.org/", "The address of example.org must not contain credentials."),
        ("ftp://example.org/", "The address is not http or https, but ftp."),
        ("file:///etc/passwd", "The address is not http or https, but file."),
        ("/hook", "The address is not http or https, but nothing."),
        ("http:///hook", "The address has no host."),
        ("http://[::1/", "The address is not a valid URL."),
        ("http://example.org:99999/", "The address is not a valid URL."),
    ],
)
async def test_forbidden_address_is_refused_with_its_reason(url: str, reason: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        await post(f"{url}?token=hunter2", OutboundSettings())
    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
async def test_name_of_a_private_address_is_refused_without_sending(receiver: Receiver, address: str) -> None:
    with pytest.raises(AddressRefused, match=r"^The address of hook.example is [a-z-]+; outbound"):
        await post(receiver.url_by("hook.example"), OutboundSettings(), Names((address,)))
    assert receiver.requests == []


async def test_resolver_returns_only_the_public_addresses() -> None:
    names = PublicNames(Names(("10.0.0.1", "1.1.1.1", "::1", "2606:4700::1111", "169.254.169.254")))
    assert [each["host"] for each in await names.resolve("hook.example")] == ["1.1.1.1", "2606:4700::1111"]


async def test_call_connects_to_the_address_of_its_only_lookup(receiver: Receiver) -> None:
    """A name server cannot give the check one address and the connection another."""
    names = Names(("127.0.0.1",))
    async with open_guarded_http(PRIVATE_ALLOWED, SystemClock(), names) as client:
        for number in (1, 2):
            await client.post(OutboundCall("msg-1", CALLER, receiver.url_by("hook.example"), BODY))
            assert len(names.resolved) == number == len(receiver.requests)


async def test_unknown_name_is_not_connected() -> None:
    with pytest.raises(NotConnected, match=r"^No connection to no\.invalid was made: its address was not"):
        await post("http://no.invalid/?token=hunter2", OutboundSettings())


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".org", "%31.org"])
async def test_invalid_name_is_refused(host: str) -> None:
    with pytest.raises((NotConnected, AddressRefused)):
        await post(f"http://{host}/", OutboundSettings())


async def test_redirect_is_returned_and_not_followed(receiver: Receiver) -> None:
    receiver.answer = answering(307, Location="/elsewhere")
    assert (await post(receiver.url)).status == 307
    assert len(receiver.requests) == 1


async def test_cookies_and_proxy_variables_are_ignored(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answer = answering(200, Set_Cookie="a=b; Path=/")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with open_guarded_http(PRIVATE_ALLOWED, SystemClock(), Names(("127.0.0.1",))) as client:
        for _ in range(2):
            await client.post(OutboundCall("msg-1", CALLER, receiver.url_by("hook.example"), BODY))
    assert ["Cookie" in each.headers for each in receiver.requests] == [False, False]


async def test_refused_connection_is_not_connected() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(
            NotConnected, match=r"^No connection to 127\.0\.0\.1 was made: Connection refused\.$"
        ):
            await post(f"http://127.0.0.1:{taken.getsockname()[1]}/")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the certificate is made by openssl")
async def test_self_signed_certificate_is_refused(
    receiver: Receiver, tmp_path: Path, aiohttp_server: Server
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {key} -out {certificate}"
    )
    await asyncio.to_thread(subprocess.run, request.split(), check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    app = web.Application()
    app.router.add_route("*", "/", receiver.handle)
    server = await aiohttp_server(app, ssl=context)
    with pytest.raises(NotConnected, match=r"its certificate is refused \(self.signed certificate\)"):
        await post(f"https://localhost:{server.port}/")
    assert receiver.requests == []


async def test_response_of_one_mebibyte_is_read_completely(receiver: Receiver) -> None:
    receiver.answer = answering(200, b"a" * MAX_BYTES)
    assert len((await post(receiver.url)).body) == MAX_BYTES


async def test_endless_response_is_read_up_to_the_limit(receiver: Receiver) -> None:
    written = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"a" * 65_536)
            written += 65_536

    receiver.answer = flood
    with pytest.raises(
        NoAnswer, match=r"^The answer is longer than 1,048,576 bytes; the rest was not read\.$"
    ):
        await post(receiver.url)
    assert written < 32 * MAX_BYTES  # socket buffers


INFORMATIONAL = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begins", "goes_on", "reason"),
    [
        (b"", INFORMATIONAL * 1000, "The answer has a head of more than 65,536 bytes;"),
        (CHUNKED, b"1\r\na\r\n" * 10_000, "The answer came in more than 1,000 chunks of under 256 bytes"),
        (CHUNKED + b"1;", b"a" * 65_536, "The answer is longer than 1,048,576 bytes"),
    ],
    ids=["informational", "small chunks", "chunk extension"],
)
async def test_endless_head_or_chunk_headers_are_limited(begins: bytes, goes_on: bytes, reason: str) -> None:
    written = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(BODY[-8:])
        writer.write(begins)
        with suppress(ConnectionError):
            while True:
                writer.write(goes_on)
                await writer.drain()
                written += len(goes_on)

    async with raw_server(flood, SECRET) as url:
        with pytest.raises(NoAnswer) as caught:
            await post(url)
    assert str(caught.value).startswith(reason)
    assert written < 32 * MAX_BYTES  # socket buffers


async def test_parameters_of_content_type_cost_nothing() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY[-8:])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain" + b";" * 8_000 + b"\r\n\r\nfine")

    async with raw_server(answer, SECRET) as url:

        async def ask() -> None:
            assert (await post(url)).body == b"fine"

        assert await least_seconds(ask) < 0.1, "to parse them takes longer"


async def test_response_after_informational_ones_is_read(receiver: Receiver) -> None:
    async def hint_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY[-8:])
        writer.write(INFORMATIONAL * 3 + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")

    async with raw_server(hint_first, SECRET) as url:
        assert (await post(url)).body == b"hi"


async def test_compressed_response_is_not_decompressed(receiver: Receiver) -> None:
    bomb = gzip.compress(b"a" * 10 * MAX_BYTES)
    receiver.answer = answering(200, bomb, Content_Type="application/json", Content_Encoding="gzip")
    assert await post(receiver.url) == OutboundAnswer(200, "application/octet-stream", bomb)


async def test_slow_response_is_given_up_after_the_timeout() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"a")
            await asyncio.sleep(0.01)

    async with raw_server(drip, SECRET) as url:
        with pytest.raises(
            NoAnswer, match=r"^No whole answer came from 127.0.0.1: it took more than 0.3 s\.$"
        ):
            await post(url, SHORT_TIMEOUT)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "the connection was closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "the connection was closed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it violates the HTTP protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", "it violates the HTTP protocol"),
    ],
)
async def test_incomplete_response_is_no_answer(response: bytes, reason: str) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY[-8:])
        writer.write(response)

    async with raw_server(say, SECRET) as url:
        with pytest.raises(NoAnswer) as caught:
            await post(url)
    assert str(caught.value) == f"No whole answer came from 127.0.0.1: {reason}."


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("Wed, 21 Oct 2026 07:29:00 GMT", 60),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0),
        ("Wed, 21 Oct 2026 07:29:00 -0000", 60),
        ("soon", None),
        ("-1", None),
        ("1e9", None),
        ("99999999999", None),
        ("Wed, 21 Oct 2026 99999999999:29:00 GMT", None),
    ],
)
async def test_retry_after_is_parsed_from_seconds_or_date(
    receiver: Receiver, header: str, seconds: int | None
) -> None:
    receiver.answer = answering(429, Retry_After=header)
    clock = HeldClock(datetime(2026, 10, 21, 7, 28, tzinfo=UTC))
    async with open_guarded_http(PRIVATE_ALLOWED, clock) as client:
        answer = await client.post(OutboundCall("msg-1", CALLER, receiver.url, BODY))
    assert answer.retry_after == (None if seconds is None else timedelta(seconds=seconds))


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()  # until the client disconnects


async def test_hanging_calls_of_one_organization_block_no_other(receiver: Receiver) -> None:
    other = UUID(int=2)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_guarded_http(PRIVATE_ALLOWED, SystemClock()))
        hanging = [await stack.enter_async_context(raw_server(hang, SECRET)) for _ in range(10)]
        stuck = [asyncio.create_task(_post_by(client, url)) for url in hanging * (MAX_CALLS // 10)]
        await asyncio.wait(stuck, timeout=0.2)
        assert (await _post_by(client, receiver.url, other)).status == 204
        assert not any(task.done() for task in stuck)
        for task in stuck:
            task.cancel()
        await asyncio.wait(stuck)


async def test_call_without_a_free_slot_is_not_connected(receiver: Receiver) -> None:
    async with (
        open_guarded_http(SHORT_TIMEOUT, SystemClock()) as client,
        raw_server(hang, SECRET) as url,
    ):
        calls = [asyncio.create_task(_post_by(client, url)) for _ in range(3 * MAX_CALLS)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert (await _post_by(client, receiver.url)).status == 204
    assert "No connection to 127.0.0.1 was made: too many other calls were under way for 0.3 s." in {
        str(end) for end in ends if isinstance(end, NotConnected)
    }


async def _post_by(client: GuardedHttp, url: str, organization_id: UUID = CALLER) -> OutboundAnswer:
    return await client.post(OutboundCall("msg-1", organization_id, url, BODY))
