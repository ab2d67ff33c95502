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

from hostsvc.clients.chat_protocol import NotTheProtocol, StreamedAnswer, answer_of, body_of, error_text
from hostsvc.clients.providers import ProviderSettings
from supervisors.models import ModelAnswer, ModelRequest
from supervisors.runs import RunError

log = structlog.get_logger()

PATH = "/chat/completions"
CONNECT_SECONDS = 10.0
HIDDEN = "(hidden)"
CONTEXT_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too many tokens|prompt is too long", re.I)


class ChatModels:
    """The models of one provider. Fits `supervisors.models.Model`."""

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

    async def complete(self, request: ModelRequest) -> ModelAnswer:
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

    async def _whole(self, request: ModelRequest) -> ModelAnswer:
        body = orjson.dumps(body_of(request, self._settings.thinking_field, stream=False))
        # Not by the SDK's own types: building them takes longer than all else, and they are strict for some.
        response = await self._client.post(
            PATH, content=body, cast_to=httpx2.Response, options={"headers": self._headers}
        )
        try:
            payload = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            raise NotTheProtocol(f"it is not JSON: {error_text(response.text)}") from None
        return answer_of(payload)

    async def _streamed(self, request: ModelRequest) -> ModelAnswer:
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
            async for chunk in stream:
                answer.add(chunk)
        return answer.answer()

    @contextmanager
    def _explained(self, model: str) -> Iterator[None]:
        """Turn what can go wrong into a RunError that says what it was and what to do. It holds no secret."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._error(self._refusal(model, error)) from error
        except openai.APIConnectionError as error:
            raise self._error(self._failure(error)) from error
        except openai.APIError as error:  # in the middle of a stream
            raise self._error(f"failed in the middle of its answer: {error_text(error.message)}") from error
        except NotTheProtocol as error:
            raise self._error(f"gave no valid answer: {error}") from error
        except (aiohttp.ClientError, json.JSONDecodeError, UnicodeError) as error:  # unreadable
            raise self._error(f"gave no valid answer: {error_text(str(error))}") from error

    def _refusal(self, model: str, error: openai.APIStatusError) -> str:
        said = error_text(self._without_key(error.response.text))
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

    def _failure(self, error: openai.APIConnectionError) -> str:
        cause = _cause_of(error)
        tried = f" ({self._settings.max_retries + 1} attempts)" if self._settings.max_retries else ""
        match cause:
            case aiohttp.ConnectionTimeoutError():
                return f"cannot be reached: no connection within {CONNECT_SECONDS:g} s{tried}."
            case TimeoutError():
                return f"was silent for {self._settings.timeout_seconds:g} s{tried}."
            case aiohttp.ClientConnectorError():
                return f"cannot be reached: {_reason_of(cause.os_error)}{tried}."
            case _:
                return f"ended the connection in the middle of its answer{tried}."

    def _error(self, what: str) -> RunError:
        said = self._without_key(what)
        log.warning("a model call failed", provider=self._name, reason=said)
        return RunError(f"The model provider {self._name} {said}")

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, HIDDEN) if self._key else text


@asynccontextmanager
async def connect(
    providers: Mapping[str, ProviderSettings], keys: Mapping[str, str]
) -> AsyncIterator[dict[str, ChatModels]]:
    """The models of all providers, by name, with connections of their own; `keys` by name of the provider."""
    # Without a limit, so that a run that waits for its model never keeps another from asking; 0 is aiohttp's
    # way to say so, and None would be a hundred.
    limits = httpx2.Limits(max_connections=0)
    async with openai.DefaultAioHttpClient(limits=limits, follow_redirects=False) as http:
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


_STATUSES = frozenset(HTTPStatus)


def _cause_of(error: BaseException) -> BaseException:
    """What aiohttp said: the SDK and its transport wrap it, and take every lost connection for a timeout."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, aiohttp.ClientError):
        cause = cause.__cause__
    return cause or error


def _reason_of(error: OSError) -> str:
    """Without the address, which is the operator's own business."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__
