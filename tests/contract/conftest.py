"""The service of the tests of `web`."""

from tests.web.conftest import api, service, start_service

__all__ = ["api", "service", "start_service"]
