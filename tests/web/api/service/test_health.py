"""Liveness and readiness over HTTP."""

from tests.web.conftest import Service
from web.ports import Readiness, ServiceState


async def test_health_needs_no_credential(service: Service) -> None:
    assert (await service.nobody.get("/healthz")).status == 200
    answer = await service.nobody.get("/readyz")
    assert (answer.status, answer.body) == (200, {"state": "ready", "reasons": []})


async def test_draining_service_is_alive_but_not_ready(service: Service) -> None:
    service.health.stated = Readiness(ServiceState.DRAINING, ("SIGTERM",), may_serve=False)
    answer = await service.nobody.get("/readyz")
    assert (answer.status, answer.body) == (503, {"detail": "SIGTERM"})
    assert (await service.nobody.get("/healthz")).status == 200
