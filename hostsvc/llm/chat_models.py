"""Calls to the models of configured providers, through the openai SDK on aiohttp.

Importing the SDK takes half a second and much memory, so `configured_models` imports this module only if
there are providers.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai
import orjson
import structlog

from hostsvc.llm import chat_protocol
from hostsvc.llm.bounded_transport import BoundedTransport
from hostsvc.llm.chat_protocol import InvalidResponse, StreamedResponse
from hostsvc.llm.providers import ProviderSettings
from hostsvc.outbound.bounded_http import bounded_session
from supervisors.engine.run import RunError
from supervisors.llm.port import ModelCallFailed, ModelOptions, ModelRequest, ModelResponse

log = structlog.get_logger()

PATH = "/chat/completions"
CONNECT_SECONDS = 10.0
MAX_STREAM_BYTES = 1 << 26  # it needs about 300 for each token
MAX_WHOLE_BYTES = 1 << 22  # and a whole response about 5
MAX_EVENT_BYTES = 1 << 20
DRAIN_SECONDS = 0.1  # for the end of a stream, after which its connection can be used again
HIDDEN = "(hidden)"
RequestKey = tuple[str, ModelOptions, tuple[str, ...]]  # its model, its options, and the URLs of its files
REFUSES_OPTIONS = frozenset({400, 404, 413, 415, 422})  # 404: OpenRouter, for a model that reads no images
MAX_REFUSED = 1000  # models; users choose their names
STATUS_CODES = frozenset(HTTPStatus)
FAILURES = (openai.APIStatusError, openai.APIConnectionError, httpx2.TransportError, InvalidResponse)
CONTEXT_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too many tokens|prompt is too long", re.I)


@dataclass(slots=True, repr=False, eq=False)
class ChatModels:
    """The models of one provider. Implements `supervisors.llm.port.Model`."""

    name: str
    settings: ProviderSettings
    client: openai.AsyncOpenAI
    headers: Mapping[str, str | openai.Omit]
    key: str
    refused: dict[RequestKey, tuple[str, ...]] = field(default_factory=dict)
    """What was refused of the options and files, by the request that had them."""

    def __repr__(self) -> str:
        return f"<ChatModels of {self.name} at {self.settings.base_url}>"

    def use_key(self, key: str) -> None:
        """Send another API key with the calls from now on."""
        self.key = self.client.api_key = key

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the response; the SDK retries 429, 5xx and lost connections. Raise ModelCallFailed."""
        streamed = StreamedResponse(request.on_text)
        try:
            with self._as_run_error(request):
                response = await self._call(request, streamed)
        except RunError as error:
            raise ModelCallFailed(str(error), streamed.partial()) from error
        if not response.input_tokens and not response.output_tokens:
            log.warning(
                "a provider reports no usage, so the call costs nothing",
                provider=self.name,
                model=request.model,
            )
        return response

    async def _call(self, request: ModelRequest, streamed: StreamedResponse) -> ModelResponse:
        """Return the response. What the model refuses is left out of this call and of later ones.

        Another value of the same option is tried, and so are other files: perhaps only these were refused.
        """
        settings = self.settings
        files = tuple(file.url for message in request.messages for file in message.files)
        key = request.model, request.options, files
        while True:
            refused = self.refused.get(key, ())
            body = chat_protocol.request_body(
                request, settings.thinking_field, refused, stream=settings.stream
            )
            encoded = orjson.dumps(body)
            try:
                call = self._streamed(encoded, streamed) if settings.stream else self._whole(encoded)
                response = await call
            except openai.APIStatusError as error:
                option = chat_protocol.refused_option(body, error.response.text)
                if option is None or error.status_code not in REFUSES_OPTIONS:
                    raise
                if len(self.refused) >= MAX_REFUSED:
                    self.refused.clear()
                self.refused[key] = (*refused, option)
                continue
            left_out = tuple(name for name in refused if name != chat_protocol.LIMITS[0])
            return replace(response, left_out=left_out)

    async def _whole(self, body: bytes) -> ModelResponse:
        # Bypass the SDK's response types: building them is slow, and they reject some servers' responses.
        response = await self.client.post(
            PATH, content=body, cast_to=httpx2.Response, options={"headers": self.headers}
        )
        return chat_protocol.parse_response(response.content)

    async def _streamed(self, body: bytes, response: StreamedResponse) -> ModelResponse:
        async with await self.client.post(
            PATH,
            content=body,
            cast_to=object,
            options={"headers": self.headers},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        ) as stream:
            # Not the SDK's events: their size is not limited, and it takes quadratic time to read a long one.
            events = aiter(httpx2.EventSource(stream.response, MAX_EVENT_BYTES))
            try:
                async for event in events:
                    if event.data.startswith("[DONE]"):
                        break
                    response.add(chat_protocol.parse_json(event.data.encode()))
            except httpx2.SSEError as error:
                raise InvalidResponse(f"an event of it is longer than {MAX_EVENT_BYTES:,} bytes") from error
            with suppress(TimeoutError, httpx2.TransportError, InvalidResponse):
                async with asyncio.timeout(DRAIN_SECONDS):
                    async for _ in events:
                        pass
        return response.result()

    @contextmanager
    def _as_run_error(self, request: ModelRequest) -> Iterator[None]:
        """Turn failures into a RunError that says what went wrong and what to do. It contains no secret."""
        try:
            yield
        except FAILURES as error:
            failure, quote = self._describe(request, error)
            raise self._error(failure, quote if request.may_quote else "") from error

    def _describe(self, request: ModelRequest, error: Exception) -> tuple[str, str]:
        """Return what went wrong, and what to quote of the response."""
        match error:
            case openai.APIStatusError():
                return self._refusal(request, error), ""
            case openai.APIConnectionError(__cause__=httpx2.TransportError(__cause__=cause)):
                return self._failure(cause, self.settings.max_retries + 1), ""
            case InvalidResponse():
                return f"gave no valid answer: {error}", error.content
            case _:  # in the middle of a stream, which is not repeated
                return self._failure(error.__cause__, attempts=1), ""

    def _refusal(self, request: ModelRequest, error: openai.APIStatusError) -> str:
        message = self._redact(error.response.text)
        phrase = HTTPStatus(error.status_code).phrase if error.status_code in STATUS_CODES else ""
        quoted = f': "{message}"' if request.may_quote else ""
        refused = f"refused the call with {error.status_code} {phrase}".rstrip() + f"{quoted}."
        match error.status_code:
            case 400 | 413 | 422 if CONTEXT_TOO_LONG.search(f"{error.code} {message}"):
                hint = f"The conversation is too long for {request.model}."
            case 401 | 403:
                source = self.settings.api_key_env
                hint = f"Check the key in {source}." if source else "It may need a key: set its api_key_env."
            case 404:
                hint = f"Check its base_url, and that it has a model {request.model}."
            case 429:
                hint = "Its rate limit is reached, or its quota is used up."
            case _:
                hint = ""
        return f"{refused} {hint}".rstrip()

    def _failure(self, cause: BaseException | None, attempts: int) -> str:
        suffix = f" ({attempts} attempts)" if attempts > 1 else ""
        match cause:
            case aiohttp.ConnectionTimeoutError():
                return f"cannot be reached: no connection within {CONNECT_SECONDS:g} s{suffix}."
            case TimeoutError():
                return f"was silent for {self.settings.timeout_seconds:g} s{suffix}."
            case aiohttp.ClientConnectorError():
                return f"cannot be reached: {_reason_of(cause.os_error)}{suffix}."
            case _:
                return f"ended the connection in the middle of its answer{suffix}."

    def _error(self, failure: str, content: str = "") -> RunError:
        reason = f"{failure}: {self._redact(content)}" if content else failure
        log.warning("a model call failed", provider=self.name, reason=reason)
        return RunError(f"The model provider {self.name} {reason}")

    def _redact(self, content: str) -> str:
        """Return an error on one line. The key is hidden first: cutting could leave half of it."""
        return chat_protocol.error_text(content.replace(self.key, HIDDEN) if self.key else content)


@asynccontextmanager
async def connect(
    providers: Mapping[str, ProviderSettings], keys: Mapping[str, str]
) -> AsyncIterator[dict[str, ChatModels]]:
    """Connect to all providers and yield their models; models and `keys` are by the provider's name."""
    async with bounded_session(MAX_STREAM_BYTES, ssl=httpx2.create_ssl_context()) as session:
        yield {
            name: _chat_models(name, settings, keys.get(name, ""), session)
            for name, settings in providers.items()
        }


def _chat_models(
    name: str, settings: ProviderSettings, key: str, session: aiohttp.ClientSession
) -> ChatModels:
    max_bytes = MAX_STREAM_BYTES if settings.stream else MAX_WHOLE_BYTES
    transport = BoundedTransport(session, max_bytes, _proxy_of(settings.base_url))
    client = openai.AsyncOpenAI(
        base_url=settings.base_url,
        api_key=key or "none",
        timeout=httpx2.Timeout(settings.timeout_seconds, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
        max_retries=settings.max_retries,
        http_client=httpx2.AsyncClient(transport=transport, headers={"Accept-Encoding": "identity"}),
    )
    # Only the configuration decides what is sent, not the environment variables that the SDK reads.
    omit = openai.Omit()
    headers: dict[str, str | openai.Omit] = {"OpenAI-Organization": omit, "OpenAI-Project": omit}
    if not key:
        headers["Authorization"] = omit
    return ChatModels(name, settings, client, headers, key)


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for this address. aiohttp would look into .netrc, too."""
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _reason_of(error: OSError) -> str:
    """Return the reason without the address, which only operators may see."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__
