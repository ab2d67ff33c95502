"""The images and PDFs of the messages that an agent was woken for, for models that read them.

They are attached to the first message of a run, within a number of bytes and of tokens.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import ceil
from uuid import UUID

from storage.channels.messages import Attachment, Attachments
from storage.storage import Storage
from supervisors.llm.port import PDF_TYPE, ModelFile
from supervisors.text import quoted

MAX_MESSAGES = 10  # with files, the latest ones
MAX_BYTES = 4_194_304  # of all files: each request of the run sends them again
MAX_TOKENS = 20_000  # of all files, as estimated by the next three
TOKENS_PER_IMAGE = 1500
TOKENS_PER_PAGE = 2000  # of a PDF
BYTES_PER_PAGE = 100_000

FILES = "These files came with messages above. They are attached in this order, but for those left out:"
LEFT_OUT = f"The files of a run may have {MAX_BYTES} bytes and about {MAX_TOKENS} tokens together."


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file that came with a message, and whether it is left out because the others have used the room."""

    message_id: UUID
    attachment: Attachment
    is_left_out: bool

    @property
    def line(self) -> str:
        """Return the line that names the file to the model."""
        one = self.attachment
        line = {"message_id": self.message_id, "name": one.name, "content_type": one.content_type}
        return quoted(line | ({"left_out": LEFT_OUT} if self.is_left_out else {}))


async def choose_files(
    message_ids: Iterable[UUID], stores: Storage, types: Collection[str]
) -> tuple[MessageFile, ...]:
    """Return the files of these types that came with the messages, which are attached as far as they fit."""
    files = []
    bytes_left, tokens_left = MAX_BYTES, MAX_TOKENS
    for message_id in message_ids:
        message = await stores.messages.get(message_id)
        for one in message.attachments if message else ():
            if one.id is None or one.size is None or one.content_type not in types:
                continue
            is_pdf = one.content_type == PDF_TYPE
            tokens = TOKENS_PER_PAGE * ceil(one.size / BYTES_PER_PAGE) if is_pdf else TOKENS_PER_IMAGE
            fits = one.size <= bytes_left and tokens <= tokens_left
            if fits:
                bytes_left, tokens_left = bytes_left - one.size, tokens_left - tokens
            files.append(MessageFile(message_id, one, not fits))
    return tuple(files)


async def read_files(files: Iterable[MessageFile], attachments: Attachments) -> tuple[ModelFile, ...]:
    """Return the files that are not left out, with their contents."""
    attached = [one.attachment for one in files if not one.is_left_out]
    return tuple(
        [
            ModelFile(one.name, one.content_type, one.url, await _content(one.id, attachments))
            for one in attached
            if one.id is not None
        ]
    )


async def _content(attachment_id: UUID, attachments: Attachments) -> bytes:
    chunks: list[bytes] = []
    while chunk := await attachments.get_chunk(attachment_id, len(chunks)):
        chunks.append(chunk)
    return b"".join(chunks)
