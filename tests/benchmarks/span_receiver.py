"""A receiver of spans in a process of its own: it prints its address, takes everything and forgets it.

python -m tests.benchmarks.span_receiver
"""

import asyncio

from aiohttp import web

from tests.receiver import receiving


async def main() -> None:
    async with receiving() as receiver:

        async def forget(_: web.Request) -> web.Response:
            receiver.requests.clear()
            return web.Response()

        receiver.answer = forget
        print(receiver.url, flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
