"""The OpenAPI document and the files of Swagger UI, as the service serves them."""

import pytest

from tests.web.conftest import Service
from web.app import ROUTES
from web.handlers.documentation import FILE_TYPES, PAGES


async def test_schema_describes_every_path(service: Service) -> None:
    answer = await service.nobody.get("/api/schema/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert len(answer.body["paths"]) == len({route.path for route in ROUTES})


async def test_page_loads_only_files_of_the_service(service: Service) -> None:
    answer = await service.nobody.get(PAGES)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert all(name in answer.body for name in FILE_TYPES)


@pytest.mark.parametrize(("name", "content_type"), FILE_TYPES.items())
async def test_file_has_its_content_type(service: Service, name: str, content_type: str) -> None:
    answer = await service.nobody.request("HEAD", PAGES + name)
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, content_type)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
