"""Every request passes here: it gets its id, is answered by its route, and is counted."""

from time import perf_counter

from aiohttp import hdrs, web

from web.errors import Refuse
from web.observability.request_counts import RequestCounts
from web.observability.request_id import begin_request, early_headers
from web.route_table import RouteTable
from web.server.framework import set_match


class Dispatcher:
    """Answers the requests of an application, in place of the framework's own routing and middlewares.

    Those put several calls around each request, which together take longer than most handlers.
    """

    def __init__(self, app: web.Application, counts: RequestCounts, refuse: Refuse) -> None:
        self._app = app
        self._counts = counts
        self._refuse = refuse
        self._routes = RouteTable(app.router)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer to a request; every refusal and every crash is one in JSON."""
        began = perf_counter()  # the loop's own clock advances only once per iteration
        begin_request(request)
        match = self._routes.find(request.method, request.rel_url.raw_path)
        if match is None:
            match = await self._app.router.resolve(request)
        match.add_app(self._app)
        set_match(request, match)
        try:
            if request.headers.get(hdrs.EXPECT):
                await match.expect_handler(request)
            response = await match.handler(request)
        except Exception as error:  # the request's outermost edge
            response = await self._refuse(request, error)
        if not response.prepared:  # a streamed response has already sent its headers, with these
            response.headers.update(early_headers(request))
        self._counts.add(match.route, response.status, perf_counter() - began)
        return response
