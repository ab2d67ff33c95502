"""Calls to the models of configured providers, through the openai SDK on aiohttp.

Importing the SDK takes half a second and much memory, so `configured_models` imports this module only if
there are providers.
"""

import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import httpx2
import openai
import orjson
import structlog

from hostsvc.llm import chat_protocol
from hostsvc.llm.chat_protocol import InvalidResponse, StreamedResponse
from hostsvc.llm.providers import ProviderSettings
from supervisors.engine.run import RunError
from supervisors.llm.port import ModelCallFailed, ModelRequest, ModelResponse

log = structlog.get_logger()

PATH = "/chat/completions"
CONNECT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 2**26  # a stream needs about 300 for each token
HIDDEN = "(hidden)"
STATUS_CODES = frozenset(HTTPStatus)
CONTEXT_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too many tokens|prompt is too long", re.I)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ChatModels:
    """The models of one provider. Implements `supervisors.llm.port.Model`."""

    name: str
    settings: ProviderSettings
    client: openai.AsyncOpenAI
    headers: Mapping[str, str | openai.Omit]
    key: str

    def __repr__(self) -> str:
        return f"<ChatModels of {self.name} at {self.settings.base_url}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the response; the SDK retries 429, 5xx and lost connections. Raise ModelCallFailed."""
        stream, thinking_field = self.settings.stream, self.settings.thinking_field
        body = orjson.dumps(chat_protocol.request_body(request, thinking_field, stream=stream))
        streamed = StreamedResponse(request.on_text)
        try:
            with self._as_run_error(request.model):
                response = await (self._streamed(body, streamed) if stream else self._whole(body))
        except RunError as error:
            raise ModelCallFailed(str(error), streamed.partial()) from error
        if not response.input_tokens and not response.output_tokens:
            log.warning(
                "a provider reports no usage, so the call costs nothing",
                provider=self.name,
                model=request.model,
            )
        return response

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
            try:
                async for chunk in stream:
                    response.add(chunk)
            except openai.APIConnectionError as error:  # not retried: a part of the response has arrived
                raise self._error(self._failure(error, attempts=1)) from error
        return response.result()

    @contextmanager
    def _as_run_error(self, model: str) -> Iterator[None]:
        """Turn failures into a RunError that says what went wrong and what to do. It contains no secret."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._error(self._refusal(model, error)) from error
        except openai.APIConnectionError as error:
            raise self._error(self._failure(error, self.settings.max_retries + 1)) from error
        except openai.APIError as error:  # in the middle of a stream
            raise self._error("failed in the middle of its answer", error.message) from error
        except InvalidResponse as error:
            raise self._error(f"gave no valid answer: {error}", error.content) from error
        except aiohttp.ClientResponseError as error:
            raise self._error("gave no valid answer: it is not HTTP", error.message) from error
        except (json.JSONDecodeError, UnicodeError, RecursionError) as error:
            raise self._error("gave no valid answer: its stream is not JSON", str(error)) from error

    def _refusal(self, model: str, error: openai.APIStatusError) -> str:
        message = self._redact(error.response.text)
        phrase = HTTPStatus(error.status_code).phrase if error.status_code in STATUS_CODES else ""
        refused = f'refused the call with {error.status_code} {phrase}: "{message}".'
        match error.status_code:
            case 400 | 413 | 422 if CONTEXT_TOO_LONG.search(f"{error.code} {message}"):
                hint = f"The conversation is too long for {model}."
            case 401 | 403:
                source = self.settings.api_key_env
                hint = f"Check the key in {source}." if source else "It may need a key: set its api_key_env."
            case 404:
                hint = f"Check its base_url, and that it has a model {model}."
            case 429:
                hint = "Its rate limit is reached, or its quota is used up."
            case _:
                hint = ""
        return f"{refused} {hint}".rstrip()

    def _failure(self, error: openai.APIConnectionError, attempts: int) -> str:
        cause = _cause_of(error)
        suffix = f" ({attempts} attempts)" if attempts > 1 else ""
        match cause:
            case aiohttp.ConnectionTimeoutError():
                return f"cannot be reached: no connection within {CONNECT_SECONDS:g} s{suffix}."
            case TimeoutError():
                return f"was silent for {self.settings.timeout_seconds:g} s{suffix}."
            case aiohttp.ClientConnectorError():
                return f"cannot be reached: {_reason_of(cause.os_error)}{suffix}."
            case httpx2.DecodingError():
                return f"sent an answer that cannot be decompressed{suffix}."
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
    # No limit, so that a run waiting for its model blocks no other: aiohttp takes 0 for none, None for 100.
    limits = httpx2.Limits(max_connections=0)
    hooks = {"response": [limit_size]}
    async with openai.DefaultAioHttpClient(limits=limits, follow_redirects=False, event_hooks=hooks) as http:
        yield {
            name: _chat_models(name, settings, keys.get(name, ""), http)
            for name, settings in providers.items()
        }


def _chat_models(name: str, settings: ProviderSettings, key: str, http: httpx2.AsyncClient) -> ChatModels:
    client = openai.AsyncOpenAI(
        base_url=settings.base_url,
        api_key=key or "none",
        timeout=httpx2.Timeout(settings.timeout_seconds, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
        max_retries=settings.max_retries,
        http_client=http,
    )
    # Only the configuration decides what is sent, not the environment variables that the SDK reads.
    omit = openai.Omit()
    headers: dict[str, str | openai.Omit] = {"OpenAI-Organization": omit, "OpenAI-Project": omit}
    if not key:
        headers["Authorization"] = omit
    return ChatModels(name, settings, client, headers, key)


async def limit_size(response: httpx2.Response) -> None:
    """Make reading the response raise InvalidResponse beyond MAX_RESPONSE_BYTES."""
    encoded = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=response.stream,
        request=response.request,
    )
    response.stream = _LimitedStream(encoded)
    response.headers.pop("Content-Encoding", None)  # the limit is on decoded bytes: a few expand to many


class _LimitedStream(httpx2.AsyncByteStream):
    """The decoded bytes of a response, up to the limit."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = MAX_RESPONSE_BYTES
        async for piece in self._response.aiter_bytes():
            remaining -= len(piece)
            if remaining < 0:
                raise InvalidResponse(f"it is longer than {MAX_RESPONSE_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def _cause_of(error: BaseException) -> BaseException:
    """Return the original error: the SDK wraps it, and reports a lost connection as a timeout."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, aiohttp.ClientError | httpx2.DecodingError):
        cause = cause.__cause__
    return cause or error


def _reason_of(error: OSError) -> str:
    """Return the reason without the address, which only operators may see."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__
