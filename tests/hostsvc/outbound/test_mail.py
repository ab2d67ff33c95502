"""Letters that the operator's relay takes, refuses or never answers."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hostsvc.outbound import mail
from hostsvc.outbound.mail import MailRelay, MailSettings
from tests.mail_server import PASSWORD, USER, MailServer, open_mail_server


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with open_mail_server() as server:
        yield server


def settings(port: int, password: str = PASSWORD, seconds: float = 30.0) -> MailSettings:
    return MailSettings("127.0.0.1", port, "none", USER, password, "hostsvc@example.org", seconds)


async def sent(relay: MailRelay) -> list[str]:
    """Send a letter and return what the log says."""

    async def write() -> EmailMessage:
        letter = EmailMessage()
        letter["To"], letter["Subject"] = "zoë@example.org", "Grüße"
        letter.set_content("Hello Zoë\n")
        return letter

    with capture_logs() as logged:
        relay.send_later(write)
        await relay.run_once()
    assert {line["subject"] for line in logged} == {"Grüße"}
    return [f"{line['event']}: {line.get('reason', '')}" for line in logged]


async def test_letter_arrives_as_it_was_written(server: MailServer) -> None:
    assert await sent(MailRelay(settings(server.port))) == ["mail sent: "]
    message = server.arrived.get_nowait()
    assert (message["To"], message["Subject"], message.get_content()) == (
        "zoë@example.org",
        "Grüße",
        "Hello Zoë\r\n",
    )
    assert message["From"] == "hostsvc@example.org"
    assert message["Date"].datetime.tzinfo is not None
    assert message["Message-ID"].endswith("@example.org>")
    assert server.recipients == ["zoë@example.org"]


async def test_refusals_are_logged_and_the_next_letter_is_sent(server: MailServer) -> None:
    relay = MailRelay(settings(server.port))
    server.refusal = "554 no such thing"
    [line] = await sent(relay)
    assert line.startswith("mail not sent: SMTPDataError")
    assert "no such thing" in line
    server.refusal = ""
    assert await sent(relay) == ["mail sent: "]
    [line] = await sent(MailRelay(settings(server.port, password="wrong")))
    assert line.startswith("mail not sent: SMTPAuthenticationError")
    [line] = await sent(MailRelay(settings(1)))
    assert line.startswith("mail not sent: SMTPConnectError")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a certificate of 127.0.0.1, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("the certificate is made by openssl")
    file = tmp_path / "relay.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", str(file)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    file.write_text(file.read_text() + made.stdout)
    return file


async def test_letter_goes_by_starttls_to_a_trusted_relay_only(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with open_mail_server(tls) as server:
        relay = MailRelay(replace(settings(server.port), security="starttls"))
        [line] = await sent(relay)
        assert "certificate verify failed" in line
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await sent(relay) == ["mail sent: "]
        [line] = await sent(MailRelay(settings(server.port)))
        assert line.startswith("mail not sent: ")
        assert server.arrived.qsize() == 1


async def test_relay_without_answer_costs_a_bounded_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        [line] = await sent(MailRelay(settings(port, seconds=0.1)))
    assert line.startswith("mail not sent: ")
    assert "imeout" in line


async def test_letters_beyond_the_queue_are_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "MAX_WAITING", 1)
    relay = MailRelay(settings(1))
    with capture_logs() as logged:
        for _ in range(2):
            relay.send_later(lambda: pytest.fail("it is not written before its turn"))
    assert [line["reason"] for line in logged] == ["1 letters wait already"]
