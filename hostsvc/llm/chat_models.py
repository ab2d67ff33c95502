"""Calls models behind an address that the operator configured, by the openai SDK on aiohttp.

Heavy, as the SDK is: half a second, and memory that a service without providers never needs. `models` imports
it where there are some.
"""

import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

import aiohttp
import httpx2
import openai
import orjson
import structlog

from hostsvc.llm.chat_protocol import NotTheProtocol, StreamedAnswer, answer_of, body_of, error_text
from hostsvc.llm.providers import ProviderSettings
from supervisors.engine.run import RunError
from supervisors.llm.port import ModelRequest, ModelResponse

log = structlog.get_logger()

PATH = "/chat/completions"
CONNECT_SECONDS = 10.0
ANSWER_BYTES = 2**26  # a stream takes some 300 for each token
HIDDEN = "(hidden)"
CONTEXT_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too many tokens|prompt is too long", re.I)


class ChatModels:
    """The models of one provider. Fits `supervisors.llm.port.Model`."""

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        client: openai.AsyncOpenAI,
        headers: Mapping[str, str | openai.Omit],
        key: str,
    ) -> None:
        self._name = name
        self._settings = settings
        self._client = client
        self._headers = headers
        self._key = key

    def __repr__(self) -> str:
        return f"<ChatModels of {self._name} at {self._settings.base_url}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The answer. Refusals for the moment (429, 5xx) and lost connections are tried again by the SDK."""
        with self._explained(request.model):
            answer = await (self._streamed(request) if self._settings.stream else self._whole(request))
        if not answer.input_tokens and not answer.output_tokens:
            log.warning(
                "a provider reports no usage: the call is not billed",
                provider=self._name,
                model=request.model,
            )
        return answer

    async def _whole(self, request: ModelRequest) -> ModelResponse:
        body = orjson.dumps(body_of(request, self._settings.thinking_field, stream=False))
        # Not by the SDK's own types: building them takes longer than all else, and they are strict for some.
        response = await self._client.post(
            PATH, content=body, cast_to=httpx2.Response, options={"headers": self._headers}
        )
        return answer_of(response.content)

    async def _streamed(self, request: ModelRequest) -> ModelResponse:
        body = orjson.dumps(body_of(request, self._settings.thinking_field, stream=True))
        answer = StreamedAnswer()
        async with await self._client.post(
            PATH,
            content=body,
            cast_to=object,
            options={"headers": self._headers},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        ) as stream:
            try:
                async for chunk in stream:
                    answer.add(chunk)
            except openai.APIConnectionError as error:  # not tried again: a part of the answer was here
                raise self._error(self._failure(error, attempts=1)) from error
        return answer.answer()

    @contextmanager
    def _explained(self, model: str) -> Iterator[None]:
        """Turn what can go wrong into a RunError that says what it was and what to do. It holds no secret."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._error(self._refusal(model, error)) from error
        except openai.APIConnectionError as error:
            raise self._error(self._failure(error, self._settings.max_retries + 1)) from error
        except openai.APIError as error:  # in the middle of a stream
            raise self._error("failed in the middle of its answer", error.message) from error
        except NotTheProtocol as error:
            raise self._error(f"gave no valid answer: {error}", error.said) from error
        except aiohttp.ClientResponseError as error:
            raise self._error("gave no valid answer: it is not HTTP", error.message) from error
        except (json.JSONDecodeError, UnicodeError, RecursionError) as error:
            raise self._error("gave no valid answer: its stream is not JSON", str(error)) from error

    def _refusal(self, model: str, error: openai.APIStatusError) -> str:
        said = self._quoted(error.response.text)
        phrase = HTTPStatus(error.status_code).phrase if error.status_code in _STATUSES else ""
        refused = f'refused the call with {error.status_code} {phrase}: "{said}".'
        match error.status_code:
            case 400 | 413 | 422 if CONTEXT_TOO_LONG.search(f"{error.code} {said}"):
                hint = f"The conversation is too long for {model}."
            case 401 | 403:
                source = self._settings.api_key_env
                hint = f"Check the key in {source}." if source else "It may want a key: set its api_key_env."
            case 404:
                hint = f"Check that it has a model {model}, and its base_url."
            case 429:
                hint = "Its limit of calls is reached, or what was paid for is used up."
            case _:
                hint = ""
        return f"{refused} {hint}".rstrip()

    def _failure(self, error: openai.APIConnectionError, attempts: int) -> str:
        cause = _cause_of(error)
        tried = f" ({attempts} attempts)" if attempts > 1 else ""
        match cause:
            case aiohttp.ConnectionTimeoutError():
                return f"cannot be reached: no connection within {CONNECT_SECONDS:g} s{tried}."
            case TimeoutError():
                return f"was silent for {self._settings.timeout_seconds:g} s{tried}."
            case aiohttp.ClientConnectorError():
                return f"cannot be reached: {_reason_of(cause.os_error)}{tried}."
            case httpx2.DecodingError():
                return f"sent an answer that cannot be decompressed{tried}."
            case _:
                return f"ended the connection in the middle of its answer{tried}."

    def _error(self, what: str, said: str = "") -> RunError:
        reason = f"{what}: {self._quoted(said)}" if said else what
        log.warning("a model call failed", provider=self._name, reason=reason)
        return RunError(f"The model provider {self._name} {reason}")

    def _quoted(self, said: str) -> str:
        """What the provider said, on one line. The key is taken out first: a cut could leave a part of it."""
        return error_text(said.replace(self._key, HIDDEN) if self._key else said)


@asynccontextmanager
async def connect(
    providers: Mapping[str, ProviderSettings], keys: Mapping[str, str]
) -> AsyncIterator[dict[str, ChatModels]]:
    """The models of all providers, by name, with connections of their own; `keys` by name of the provider."""
    # Without a limit, so that a run that waits for its model never keeps another from asking; 0 is aiohttp's
    # way to say so, and None would be a hundred.
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
    # The configuration says what is sent, not the variables that the SDK looks for.
    headers: dict[str, str | openai.Omit] = {
        "OpenAI-Organization": openai.Omit(),
        "OpenAI-Project": openai.Omit(),
    }
    if not key:
        headers["Authorization"] = openai.Omit()
    return ChatModels(name, settings, client, headers, key)


async def limit_size(response: httpx2.Response) -> None:
    """See to it that reading the answer ends with NotTheProtocol where it takes more than ANSWER_BYTES."""
    encoded = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=response.stream,
        request=response.request,
    )
    response.stream = _Limited(encoded)
    response.headers.pop("Content-Encoding", None)  # it is decoded by then: few bytes can unfold to many


class _Limited(httpx2.AsyncByteStream):
    """The decoded bytes of a response, as far as the limit."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = ANSWER_BYTES
        async for piece in self._response.aiter_bytes():
            left -= len(piece)
            if left < 0:
                raise NotTheProtocol(f"it is longer than {ANSWER_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


_STATUSES = frozenset(HTTPStatus)


def _cause_of(error: BaseException) -> BaseException:
    """What it was at first: the SDK and its transport wrap it, and take a lost connection for a timeout."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, aiohttp.ClientError | httpx2.DecodingError):
        cause = cause.__cause__
    return cause or error


def _reason_of(error: OSError) -> str:
    """Without the address, which is the operator's own business."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__
