"""E-mail to people: a whole process, and a real mail server."""

import aiohttp
from aiohttp.test_utils import unused_port

from tests.acceptance.client import Client
from tests.acceptance.services import Services
from tests.mail_server import PASSWORD, USER, open_mail_server

ADDRESS = "ann@example.org"
REQUEST = "/api/organizations/auth/reset/request/"


async def test_lost_password_is_replaced_by_a_mailed_code(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_mail_server() as server:
        port = unused_port()
        mail = {"host": "127.0.0.1", "port": server.port, "security": "none", "sender": "hostsvc@example.org"}
        service = await services.start(
            mail={**mail, "user": USER, "password": PASSWORD},
            server={"port": port, "base_url": f"http://127.0.0.1:{port}"},
        )
        await Client(session, service.url).post(
            "/api/organizations/auth/signup/", email=ADDRESS, password=PASSWORD, organization_name="Acme"
        )
        async with session.post(f"{service.url}{REQUEST}", json={"email": ADDRESS}) as response:
            assert response.status == 204
        message = await server.arrived.get()
        code = message.get_content().partition("code:")[2].split()[0]
        body = {"email": ADDRESS, "code": code, "new_password": "another horse"}
        async with session.post(f"{service.url}/api/organizations/auth/reset/", json=body) as response:
            assert response.status == 200
    assert '"event":"mail sent","subject":"A new password"' in service.log()


async def test_service_without_relay_refuses_to_send_codes(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    async with session.post(f"{service.url}{REQUEST}", json={"email": ADDRESS}) as response:
        assert response.status == 403
        assert "sends no e-mail" in (await response.json())["detail"]
