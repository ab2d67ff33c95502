"""The OpenAPI document as it is served: built when somebody asks for it first."""

import asyncio
from collections.abc import Sequence

from web.json import to_json
from web.openapi.document import build_document
from web.routes import Route


class ServedDocument:
    """The JSON text of the OpenAPI document of these routes.

    Building it takes a fifth of a second and some megabytes, and most services are never asked for it.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._text: bytes | None = None
        self._building: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        """Return the text. The first call builds it in a thread; the others wait for that.

        If that fails, they get the error, and the next call builds it again.
        """
        if self._text is None:
            if self._building is None or self._building.done():
                self._building = asyncio.create_task(asyncio.to_thread(self._build))
            self._text = await asyncio.shield(self._building)
        return self._text

    def _build(self) -> bytes:
        return to_json(build_document(self._routes))
