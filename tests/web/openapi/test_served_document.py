"""The OpenAPI document as it is served."""

import asyncio
from collections.abc import Iterable

import pytest

from tests.web.openapi.routes import CREATE, LIST
from web.json import to_json
from web.openapi.document import ServedDocument, build_document
from web.openapi.schemas import Json
from web.routes import Route


async def test_document_is_built_once_for_concurrent_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    built = list[Json]()

    def build(routes: Iterable[Route]) -> Json:
        built.append(build_document(routes))
        return built[-1]

    monkeypatch.setattr("web.openapi.document.build_document", build)
    document = ServedDocument([LIST, CREATE])
    assert built == []

    texts = await asyncio.gather(document.get(), document.get())
    assert [*texts, await document.get()] == [to_json(build_document([LIST, CREATE]))] * 3
    assert len(built) == 1


async def test_cancelled_request_leaves_document_to_the_others() -> None:
    document = ServedDocument([LIST])
    impatient, patient = asyncio.create_task(document.get()), asyncio.create_task(document.get())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == to_json(build_document([LIST]))


async def test_document_is_built_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    document = ServedDocument([LIST])
    with monkeypatch.context() as patch:
        patch.setattr("web.openapi.document.build_document", fail)
        with pytest.raises(OSError, match="too many open files"):
            await document.get()

    assert await document.get() == to_json(build_document([LIST]))


def fail(_: Iterable[Route]) -> Json:
    raise OSError("too many open files")
