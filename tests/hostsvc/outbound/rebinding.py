"""The attacks by names, run in a closed network by test_rebinding.py: prints what became of each call."""

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from aiohttp import web

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from supervisors.clock import SystemClock
from supervisors.outbound import OutboundCall, OutboundError
from tests.hostsvc.outbound.closed_network import set_up
from tests.hostsvc.outbound.name_server import serving_names

PUBLIC, PUBLIC6 = "93.184.216.34", "2606:4700::1111"
PRIVATE = ("10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1", "168.63.129.16")
PRIVATE6 = ("fd00::1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::1", "fec0::1")
MAPPED = ("::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254")
UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104 -- connecting to them reaches loopback
LOOPBACK = ("127.0.0.1", "127.0.0.53", "::1", "::127.0.0.1")
FORBIDDEN = (*PRIVATE, *PRIVATE6, *MAPPED, *UNSPECIFIED, *LOOPBACK)

CALLS = 20  # to each name whose answers alternate
RESOLVER = "nameserver 127.0.0.1\nsearch corp.test\noptions timeout:1 attempts:1\n"

ALIASES = {f"hop{number}.test": [[f"hop{number + 1}.test."]] for number in range(8)}
RECORDS: dict[str, Sequence[Sequence[str]]] = {
    "public.test": [[PUBLIC]],
    "public6.test": [[PUBLIC6]],
    "public-alias.test": [["alias.test."]],
    "alias.test": [["public.test."]],
    **{f"n{number}.test": [[address]] for number, address in enumerate(FORBIDDEN)},
    "rebound.test": [[PUBLIC], ["127.0.0.1"]],
    "rebound6.test": [[PUBLIC6], ["::ffff:10.0.0.1"]],
    "rebound-families.test": [[PUBLIC, "fd00::1"], ["10.0.0.1", PUBLIC6]],
    "rebound-alias.test": [["public.test."], ["private.test."]],
    "private.test": [["10.0.0.1"]],
    "many.test": [[*PRIVATE, *(f"10.0.{number}.1" for number in range(20)), PUBLIC, "127.0.0.1"]],
    **ALIASES,
    "hop8.test": [["169.254.169.254"]],
    "loop.test": [["localhost."]],
    "localhost": [["127.0.0.1"]],
    "db.corp.test": [["10.0.0.1"]],
}
ALTERNATING = tuple(name for name in RECORDS if name.startswith("rebound"))
REDIRECT = f"http://{PUBLIC}/redirect"


async def main() -> None:
    set_up([PUBLIC, *PRIVATE, PUBLIC6, *PRIVATE6], RESOLVER)
    reached: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        reached[request.transport.get_extra_info("sockname")[0]] += 1
        if request.path == "/redirect":
            raise web.HTTPTemporaryRedirect("http://10.0.0.1/")
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(answer))  # type: ignore[arg-type]
    await runner.setup()
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104
        listener = socket.socket(family)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, 80))
        await web.SockSite(runner, listener).start()
    async with serving_names(RECORDS, 53) as names:
        outcomes = await attack(allow_private=False)
        queries = {name: names.queries[name, 1] for name in ALTERNATING}
        guarded = dict(reached)
        unguarded = await attack(allow_private=True)
    await runner.cleanup()
    json.dump(
        {
            "outcomes": outcomes,
            "queries": queries,
            "reached": guarded,
            "unguarded": unguarded,
            "reached_unguarded": sorted(reached),
        },
        sys.stdout,
    )


async def attack(*, allow_private: bool) -> dict[str, list[str]]:
    """Call each name, and return what became of its calls."""
    settings = OutboundSettings(allow_private=allow_private, timeout_seconds=3)
    urls = {f"http://{name}/": CALLS if name in ALTERNATING else 1 for name in RECORDS}
    urls |= {REDIRECT: 1, "http://db/": 1, "http://public.test./": 1, "http://PUBLIC.test/": 1}
    outcomes: dict[str, list[str]] = {url: [] for url in urls}
    async with open_guarded_http(settings, SystemClock()) as client:
        for url, times in urls.items():
            for number in range(times):
                call = OutboundCall(f"{number}", UUID(int=1), url, b"{}", "", {})
                try:
                    outcomes[url].append(str((await client.post(call)).status))
                except OutboundError as error:
                    outcomes[url].append(f"{type(error).__name__}: {error}")
    return outcomes


if __name__ == "__main__":
    asyncio.run(main())
