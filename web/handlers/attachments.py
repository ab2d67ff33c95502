"""Attachments: the files that were uploaded with messages, to download."""

from urllib.parse import quote

from aiohttp import web

from storage.channels.attachments import StoredAttachment
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_of_agent
from web.app_keys import STORAGE
from web.downloads import send_file
from web.request.file_parts import BINARY
from web.routes import Routes

routes = Routes()

PATH = "/api/defaults/attachments/{id}/"


@routes.get(PATH, answer=bytes, media_types=(BINARY,), run_access=RunAccess.RUNNING, refusals={429})
async def download_attachment(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Download a file that was uploaded with a message.

    Browsers store it rather than show it: nothing in it runs. A run reads the files of its own agent.
    """
    attachments = request.app[STORAGE].attachments
    attachment = await load_of_agent(request, caller, attachments.get)

    async def read(position: int) -> bytes | None:
        return await attachments.get_chunk(attachment.id, position)

    return await send_file(request, attachment.size, headers_of(attachment), read)


def headers_of(attachment: StoredAttachment) -> dict[str, str]:
    """Return the headers with which a file is a download and nothing else, whatever it contains."""
    ascii_name = "".join(
        character if character.isascii() and character not in '"\\%' else "_" for character in attachment.name
    )
    name = quote(attachment.name, safe="")
    return {
        "Content-Type": attachment.content_type,
        "Content-Disposition": f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{name}",
        "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    }
