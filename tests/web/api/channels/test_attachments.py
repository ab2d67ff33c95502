"""Attachments over HTTP: files uploaded with messages, and their download."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from aiohttp import FormData

from storage.channels.messages import CHUNK_BYTES
from tests.web.api.channels.test_message_tools import call
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import SETTINGS, Answer, Api, Service
from web.credentials.formats import RunTokens

MESSAGES = "/api/defaults/messages/"
ATTACHMENTS = "/api/defaults/attachments/"
NOTIFICATIONS = "/api/defaults/notifications/"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
LINK = {"name": "a.png", "content_type": "image/png", "url": "https://example.com/a.png"}

File = tuple[str, str, bytes]


def form(agent: Any, *files: File, **fields: str) -> FormData:
    """Return an inbound message with files, each with its name, type and content."""
    data = FormData({"agent": agent["id"], "channel": "mms", "direction": "inbound", **fields})
    for name, content_type, content in files:
        data.add_field("files", BytesIO(content), filename=name, content_type=content_type)
    return data


async def upload(api: Api, agent: Any, *files: File, **fields: str) -> Any:
    answer = await api.request("POST", MESSAGES, data=form(agent, *files, **fields))
    assert answer.status == 201, answer
    return answer.body


async def download(api: Api, path: str, method: str = "GET") -> tuple[int, bytes, Any]:
    headers = {"Authorization": str(api.authorization)}
    async with api.client.request(method, path, headers=headers) as response:
        return response.status, await response.read(), response.headers


async def test_uploaded_files_are_stored_with_their_message(api: Api) -> None:
    agent = await api.create_agent()
    long = os.urandom(3 * CHUNK_BYTES + 5)
    files = (("photo.png", "image/png", PNG), ("long.bin", "application/zip", long), ("", "text/plain", b""))
    message = await upload(api, agent, *files, body="Look", **{"from": "+43123456"})

    shown = message["attachments"]
    assert [(each["name"], each["content_type"], each["size"]) for each in shown] == [
        (name, content_type, len(content)) for name, content_type, content in files
    ]
    assert (await api.get(f"{MESSAGES}{message['id']}/")).body == message
    for each, (_, content_type, content) in zip(shown, files, strict=True):
        assert each["url"] == f"{ATTACHMENTS}{each['id']}/"
        status, received, headers = await download(api, each["url"])
        assert (status, received, headers["Content-Type"]) == (200, content, content_type)
    [notification] = (await api.get(NOTIFICATIONS)).body
    hint = "Attachments: 3. Open them with the tool open_sms_attachment and the message id"
    assert notification["body"] == f"Look\n\n{hint} {message['id']}."


async def test_download_never_shows_in_a_browser(api: Api) -> None:
    disposition = 'Content-Disposition: form-data; name="files"; filename="C:\\..\\<;%22évil\u202egnp.html"'
    answer = await raw_upload(
        api,
        await api.create_agent(),
        f"{disposition}\r\nContent-Type: text/html",
        "<script>alert(1)</script>",
    )
    [shown] = answer.body["attachments"]
    assert shown["name"] == "<;%22évil_gnp.html"
    for method in ("GET", "HEAD"):
        status, _, headers = await download(api, shown["url"], method)
        assert (status, headers["Content-Length"]) == (200, "25")
        assert headers["Content-Disposition"] == (
            "attachment; filename=\"<;_22_vil_gnp.html\"; filename*=UTF-8''%3C%3B%2522%C3%A9vil_gnp.html"
        )
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("declared", "content", "stored"),
    [
        ("image/png", PNG, "image/png"),
        ("Image/PNG; x=y", PNG, "image/png"),
        ("image/png", b"<svg/>", "application/octet-stream"),
        ("image/jpeg", PNG, "application/octet-stream"),
        ("application/pdf", b"x%PDF-1.7", "application/pdf"),
        ("application/pdf", b"MZ", "application/octet-stream"),
        ("text/plain", b"a\0b", "application/octet-stream"),
        ("audio/amr", b"x", "audio/amr"),
    ],
)
async def test_type_that_the_content_contradicts_is_replaced(
    api: Api, declared: str, content: bytes, stored: str
) -> None:
    [shown] = (await upload(api, await api.create_agent(), ("x", declared, content)))["attachments"]
    assert shown["content_type"] == stored


async def test_bad_files_are_refused_by_index(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    raw = form(agent, ("a", "text/plain", b""), ("b" * 256, "text/plain", b""))
    answer = await api.request("POST", MESSAGES, data=raw)
    messages = ["Ensure the file name has no more than 255 characters."]
    assert (answer.status, answer.body) == (400, {"files": {"1": messages}})
    answer = await api.request("POST", MESSAGES, data=form(agent, *[("a", "text/plain", b"")] * 21))
    assert answer.body == {"files": ["Ensure this field has no more than 20 elements."]}
    body = {"agent": agent["id"], "channel": "sms", "direction": "inbound", "files": ["x"]}
    answer = await api.post(MESSAGES, body)
    no_files = "Send files as parts of a multipart/form-data body, each with a file name."
    assert (answer.status, answer.body) == (400, {"files": [no_files]})
    assert await service.storage.pool.fetchval("SELECT count(*) FROM attachment") == 0
    assert (await api.get(MESSAGES)).body == []


async def raw_upload(api: Api, agent: Any, part_head: str, content: str = "x") -> Answer:
    lines = "".join(
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in (("agent", agent["id"]), ("channel", "sms"), ("direction", "inbound"))
    )
    body = f"{lines}--xyz\r\n{part_head}\r\n\r\n{content}\r\n--xyz--\r\n".encode()
    headers = {"Content-Type": "multipart/form-data; boundary=xyz"}
    return await api.request("POST", MESSAGES, data=body, headers=headers)


async def test_malformed_media_type_of_file_is_refused(api: Api) -> None:
    disposition = 'Content-Disposition: form-data; name="files"; filename="a"'
    answer = await raw_upload(api, await api.create_agent(), f"{disposition}\r\nContent-Type: text")
    assert answer.body == {"files": {"0": ['"text" is not a media type such as image/png.']}}


async def test_file_without_media_type_is_arbitrary_bytes(api: Api) -> None:
    disposition = 'Content-Disposition: form-data; name="files"; filename=a.bin'
    answer = await raw_upload(api, await api.create_agent(), disposition)
    assert answer.body["attachments"][0]["content_type"] == "application/octet-stream"


async def test_files_beyond_the_limit_are_refused(api: Api) -> None:
    agent, most = await api.create_agent(), SETTINGS.limits.attachment_bytes
    half = ("a", "application/zip", bytes(most // 2))
    assert len((await upload(api, agent, half, half))["attachments"]) == 2
    answer = await api.request("POST", MESSAGES, data=form(agent, half, half, ("b", "text/plain", b"x")))
    message = f"limits.attachment_bytes: the files of a message have at most {most} bytes."
    assert (answer.status, answer.body) == (413, {"detail": message})
    far = ("a", "application/zip", bytes(most + SETTINGS.limits.body_bytes))
    assert (await api.request("POST", MESSAGES, data=form(agent, far))).status == 413
    long_text = form(agent)
    long_text.add_field("body", BytesIO(b"x" * (SETTINGS.limits.body_bytes + 1)))
    assert (await api.request("POST", MESSAGES, data=long_text)).status == 413
    assert len((await api.get(MESSAGES)).body) == 1


async def test_repeated_upload_is_stored_once(service: Service, api: Api) -> None:
    agent, headers = await api.create_agent(), {"Idempotency-Key": "upload"}
    file = ("a.bin", "application/zip", os.urandom(CHUNK_BYTES + 1))

    async def send(*files: File) -> Answer:
        return await api.request("POST", MESSAGES, data=form(agent, *files), headers=headers)

    answers = await asyncio.gather(*(send(file) for _ in range(3)))
    assert {answer.status for answer in answers} <= {201, 409}
    again = await send(file)
    assert (again.status, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert (await send(("a.bin", "application/zip", b"other"))).status == 422
    assert await service.storage.pool.fetchval("SELECT count(*) FROM attachment_chunk") == 2


async def test_uploads_count_against_the_organization(api: Api) -> None:
    agent = await api.create_agent()
    await upload(api, agent, ("a", "application/zip", bytes(5000)), ("b", "application/zip", bytes(1)))
    limits = (await api.get("/api/organizations/limits/")).body["limits"]
    [used] = [limit["used"] for limit in limits if limit["name"] == "document_bytes"]
    assert used == 5001 + 2 * 1024


async def test_upload_is_out_of_reach_of_others(service: Service, api: Api, other: Api) -> None:
    agent, bob = await api.create_agent(), await api.create_agent()
    [shown] = (await upload(api, agent, ("a", "image/png", PNG)))["attachments"]
    assert (await download(other, shown["url"]))[0] == 403
    assert (await api.get(f"{ATTACHMENTS}{UNKNOWN_ID}/")).status == 404
    assert (await api.get(f"{ATTACHMENTS}x/")).status == 404
    for whose, status in ((agent, 200), (bob, 403)):
        run = (await api.post(f"/api/cloud/agents/{whose['id']}/run/")).body["run"]
        token = RunTokens(SETTINGS.token_secret).issue(UUID(run), datetime.now(UTC), timedelta(hours=1))
        answer = await download(api.with_authorization(f"Bearer {token}"), shown["url"])
        assert answer[0] == status, answer


async def test_deleted_message_takes_its_files_with_it(service: Service, api: Api) -> None:
    message = await upload(api, await api.create_agent(), ("a", "image/png", PNG))
    assert (await api.delete(f"{MESSAGES}{message['id']}/")).status == 204
    assert (await api.get(message["attachments"][0]["url"])).status == 404
    assert await service.storage.pool.fetchval("SELECT count(*) FROM attachment_chunk") == 0


async def test_change_of_attachments_keeps_uploads(api: Api) -> None:
    agent = await api.create_agent()
    message = await upload(api, agent, ("a", "image/png", PNG), ("b", "image/png", PNG))
    path, [first, second] = f"{MESSAGES}{message['id']}/", message["attachments"]
    for sent in ([LINK], [second, LINK], [LINK, first, second]):
        changed = await api.patch(path, {"attachments": sent})
        assert (changed.status, changed.body["attachments"]) == (200, [first, second, LINK])
    [foreign] = (await upload(api, agent, ("a", "image/png", PNG)))["attachments"]
    refused = await api.patch(path, {"attachments": [foreign]})
    text = "This message has no uploaded file with this address."
    assert (refused.status, refused.body) == (400, {"attachments": {"0": {"url": [text]}}})
    again = {"agent": agent["id"], "channel": "sms", "direction": "inbound", "attachments": [foreign]}
    assert (await api.post(MESSAGES, again)).status == 400


async def test_tool_opens_the_text_of_uploaded_files(api: Api) -> None:
    agent = await api.create_agent()
    text = ("a.txt", "text/plain", "Grüße\n".encode())
    long = ("b.json", "application/json", b"[" + b"1," * 20_000 + b"1]")
    message = await upload(api, agent, text, ("c.png", "image/png", PNG), long, text)

    answer = await call(api, agent, "open_sms_attachment", message_id=message["id"])

    first, photo, cut, last = answer.body["result"]["attachments"]
    assert (first["text"], first["is_cut"], first["size"]) == ("Grüße\n", False, 8)
    assert photo == message["attachments"][1]
    assert (len(first["text"].encode()) + len(cut["text"]), cut["is_cut"]) == (16_384, True)
    assert "text" not in last
    answer = await call(
        api, agent, "open_sms_attachment", message_id=message["id"], start=cut["next_start"] + 16_384
    )
    rest = answer.body["result"]["attachments"][2]
    assert (rest["text"], rest["is_cut"]) == (long[2][cut["next_start"] + 16_384 :].decode(), False)


async def test_file_deleted_during_download_aborts_it(service: Service, api: Api) -> None:
    content = os.urandom(2 * CHUNK_BYTES)
    [shown] = (await upload(api, await api.create_agent(), ("a", "application/zip", content)))["attachments"]
    await service.storage.pool.execute("DELETE FROM attachment_chunk WHERE position = 1")
    with pytest.raises(Exception, match=r"not completed|disconnected|payload|Connection"):
        await download(api, shown["url"])
