"""The memory tool: an agent keeps texts from run to run, as files below `/memories`.

Its commands, parameters and answers are those of the memory tool that models are trained on. The files are
documents of the agent, which people read and correct over the API.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from storage.channels.documents import Document
from storage.channels.memories import (
    CORE,
    MAX_CORE_BYTES,
    MAX_FILES,
    MAX_PATH_CHARACTERS,
    ROOT,
    DirectoryEntry,
    InvalidPath,
    MemoryFile,
    core_refusal,
    name_of,
    normalized,
)
from storage.errors import NotUnique
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.documents import MAX_CONTENT_BYTES, new_document, writer_of
from supervisors.tools.tool import PartialResult, ToolInvocation, agent_tool

MAX_LINES = 999_999
MAX_SHOWN_BYTES = 100_000  # of a file that is viewed; a longer result would be cut within a line
MAX_SHOWN_LINES_OF_MATCHES = 100
MAX_SEARCHED_CHARACTERS = 1_000_000  # of the texts that are compared to find these lines
CONTEXT_LINES = 2
UNITS = ("B", "K", "M", "G")
MAX_ENTRIES = 1000  # of a directory that is viewed
ATTEMPTS = 10  # to edit a file that others are editing


class MemoryCommand(StrEnum):
    """What the memory tool does."""

    VIEW = "view"
    CREATE = "create"
    STR_REPLACE = "str_replace"
    INSERT = "insert"
    DELETE = "delete"
    RENAME = "rename"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


@agent_tool(
    f"Reads and changes your memory: text files below {ROOT}, which you keep from run to run. {CORE}, of "
    f"at most {MAX_CORE_BYTES} bytes, is shown to you at each wake; view the others when you need them. "
    "Commands: view (path, view_range?) shows a file with line numbers, or a directory; create (path, "
    "file_text) makes a new file; str_replace (path, old_str, new_str) replaces a text that occurs once; "
    "insert (path, insert_line, insert_text) adds text after a line; delete (path); rename (old_path, "
    "new_path).",
    ("command",),
    command={"type": "string", "enum": list(MemoryCommand)},
    path=_text(f"The file or directory, such as {ROOT}/people/ada.md; of all commands but rename."),
    view_range={
        "type": "array",
        "items": {"type": "integer"},
        "description": "view: the first and the last line to show; -1 for the end of the file.",
    },
    file_text=_text("create: the content of the new file."),
    old_str=_text("str_replace: the text to replace, exactly as it is in the file."),
    new_str=_text("str_replace: the text to put in its place."),
    insert_line={"type": "integer", "description": "insert: the line to insert after; 0: the beginning."},
    insert_text=_text("insert: the text to insert."),
    old_path=_text("rename: the file or directory to rename."),
    new_path=_text("rename: its new path."),
)
async def memory(call: ToolInvocation) -> str | PartialResult:
    """Execute one command on the agent's memories."""
    command = call.arguments.required_choice("command", MemoryCommand)
    return await COMMANDS[command](call)


async def _view(call: ToolInvocation) -> str | PartialResult:
    path = _path(call, "path")
    memory = await call.stores.memories.get(call.agent.id, path)
    if memory is not None:
        view = view_file(path, memory.content, call.arguments.pair("view_range"))
        return PartialResult(view.text, view.left_out) if view.left_out else view.text
    entries = await call.stores.memories.list_directory(call.agent.id, path, MAX_ENTRIES + 1)
    if not entries and path != ROOT:
        raise _missing(path)
    text = view_directory(path, entries[:MAX_ENTRIES])
    if len(entries) > MAX_ENTRIES:
        return PartialResult(text, f"Only {MAX_ENTRIES} entries are listed: view a directory below {path}.")
    return text


async def _create(call: ToolInvocation) -> str:
    path, content = _path(call, "path"), call.arguments.text("file_text")
    if path == ROOT:
        raise _exists(path)
    _require_room(path, content)
    conflict = await call.stores.memories.find_conflict(call.agent.id, path)
    if conflict is not None:
        raise _exists(path) if conflict.startswith(path) else _no_directory(conflict)
    content_type = "text/markdown" if path.endswith(".md") else "text/plain"
    try:
        memory = new_document(call, name_of(path), content, path=path, content_type=content_type)
        await call.stores.documents.insert(memory)
    except NotUnique as error:
        raise _exists(path) from error
    return f"File created successfully at: {path}"


async def _replace(call: ToolInvocation) -> str:
    path, old, new = _path(call, "path"), call.arguments.text("old_str"), call.arguments.text("new_str")
    return await _edit(call, path, lambda content: replace_text(path, content, old, new))


async def _insert(call: ToolInvocation) -> str:
    path, text = _path(call, "path"), call.arguments.text("insert_text")
    line = call.arguments.required_integer("insert_line")
    return await _edit(call, path, lambda content: insert_text(path, content, line, text))


async def _delete(call: ToolInvocation) -> str:
    path = _path(call, "path")
    if path == ROOT:
        raise ToolError("invalid", f"Cannot delete the {ROOT} directory itself", parameter="path")
    files = await _files(call, path)
    await call.stores.memories.delete(files, writer_of(call), call.now)
    return f"Successfully deleted {path}"


async def _rename(call: ToolInvocation) -> str:
    old, new = _path(call, "old_path"), _path(call, "new_path")
    if old == ROOT:
        raise ToolError("invalid", f"Cannot rename the {ROOT} directory itself", parameter="old_path")
    if new == ROOT or await call.stores.memories.list_files(call.agent.id, new):
        raise _occupied(new)
    files = await _files(call, old)
    await _refuse_move(call, files, old, new)
    try:
        if not await call.stores.memories.rename(files, old, new, name_of(new)):
            raise _gone(old)
    except NotUnique as error:
        raise _occupied(new) from error
    return f"Successfully renamed {old} to {new}"


COMMANDS: dict[MemoryCommand, Callable[[ToolInvocation], Awaitable[str | PartialResult]]] = {
    MemoryCommand.VIEW: _view,
    MemoryCommand.CREATE: _create,
    MemoryCommand.STR_REPLACE: _replace,
    MemoryCommand.INSERT: _insert,
    MemoryCommand.DELETE: _delete,
    MemoryCommand.RENAME: _rename,
}


async def _edit(call: ToolInvocation, path: str, change: Callable[[str], tuple[str, str]]) -> str:
    """Change a file and return the answer. A file that others change at the same time is read again."""
    for _ in range(ATTEMPTS):
        memory = await _load(call, path)
        content, answer = change(memory.content)
        _require_room(path, content)
        changes = {"content": content}
        if await call.stores.documents.update(memory, changes, writer_of(call), call.now, memory.version):
            return answer
    raise ToolError("unavailable", f"The file {path} is being changed by others; try again.")


async def _load(call: ToolInvocation, path: str) -> Document:
    memory = await call.stores.memories.get(call.agent.id, path)
    if memory is not None:
        return memory
    if path == ROOT or await call.stores.memories.list_files(call.agent.id, path):
        raise ToolError("invalid", f"The path {path} is not a file.", parameter="path")
    raise _missing(path)


async def _files(call: ToolInvocation, path: str) -> list[MemoryFile]:
    """Return the file at this path, or all files below it. Raise ToolError if there are none or too many."""
    files = await call.stores.memories.list_files(call.agent.id, path)
    if not files:
        raise _gone(path)
    if len(files) > MAX_FILES:
        message = f"The directory {path} contains more than {MAX_FILES} files: do this with parts of it."
        raise ToolError("too_many", message)
    return files


async def _refuse_move(call: ToolInvocation, files: list[MemoryFile], old: str, new: str) -> None:
    """Raise ToolError if the files cannot move from `old` to `new`."""
    if new.startswith(f"{old}/"):
        raise ToolError("invalid", f"The path {new} is inside of {old}", parameter="new_path")
    conflict = await call.stores.memories.find_conflict(call.agent.id, new)
    if conflict is not None:
        raise _no_directory(conflict)
    if max(len(file.path) for file in files) + len(new) - len(old) > MAX_PATH_CHARACTERS:
        message = f"A path would have more than {MAX_PATH_CHARACTERS} characters: choose a shorter new_path."
        raise ToolError("invalid", message, parameter="new_path")
    if new == CORE:
        _require_room(new, (await _load(call, old)).content)


def _path(call: ToolInvocation, name: str) -> str:
    try:
        return normalized(call.arguments.text(name))
    except InvalidPath as error:
        raise ToolError("invalid", str(error), parameter=name) from error


def _require_room(path: str, content: str) -> None:
    """Raise ToolError for a content that is too long for a memory, or for the core memory."""
    size = len(content.encode())
    refusal = core_refusal(path, content)
    if size > MAX_CONTENT_BYTES:
        most = f"A file may have at most {MAX_CONTENT_BYTES} bytes"
        refusal = f"{most}, and {path} would have {size}: use several files."
    if refusal is not None:
        raise ToolError("too_long", refusal)


def _no_directory(path: str) -> ToolError:
    return ToolError("invalid", f"The path {path} is a file, not a directory.")


def _missing(path: str) -> ToolError:
    return ToolError("not_found", f"The path {path} does not exist. Please provide a valid path.")


def _gone(path: str) -> ToolError:
    return ToolError("not_found", f"The path {path} does not exist")


def _exists(path: str) -> ToolError:
    return ToolError("exists", f"File {path} already exists")


def _occupied(path: str) -> ToolError:
    return ToolError("exists", f"The destination {path} already exists")


@dataclass(frozen=True, slots=True)
class View:
    """A part of a file with line numbers; `left_out` tells in a sentence what is missing, or is blank."""

    text: str
    left_out: str = ""


def numbered(lines: Sequence[str], first: int) -> str:
    """Return the lines with their numbers, six characters wide, and a tab."""
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))


def view_file(path: str, content: str, view_range: tuple[int, int] | None) -> View:
    """Return the lines of the range, or all; the range ends with a line number, or with -1 for the last."""
    lines = content.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError("too_long", f"File {path} exceeds maximum line limit of 999,999 lines.")
    start, end = 0, len(lines)
    if view_range is not None:
        start = max(1, view_range[0]) - 1
        end = len(lines) if view_range[1] == -1 else view_range[1]
    wanted = lines[start:end]
    shown = wanted[: _fitting(wanted)]
    left_out = ""
    if len(shown) < len(wanted):
        last = start + len(shown)
        left_out = f"Line {last} is the last one shown of {len(lines)}: view the others by view_range."
    return View(f"Here's the content of {path} with line numbers:\n{numbered(shown, start + 1)}", left_out)


def view_directory(path: str, entries: Sequence[DirectoryEntry]) -> str:
    """Return the files and directories up to two levels deep with their sizes, in the given order."""
    lines: list[str] = []
    of_first: dict[str, int] = {}
    for entry in entries:
        of_first[entry.first] = of_first.get(entry.first, 0) + entry.size_bytes
    for entry in entries:
        if entry.first.startswith("."):
            continue
        size = of_first.pop(entry.first, None)
        if size is not None:
            lines.append(f"{file_size(size)}\t{path}/{entry.first}{'/' if entry.second else ''}")
        if entry.second and not entry.second.startswith("."):
            name = f"{entry.first}/{entry.second}{'/' if entry.is_directory else ''}"
            lines.append(f"{file_size(entry.size_bytes)}\t{path}/{name}")
    header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    total = file_size(sum(entry.size_bytes for entry in entries))
    return "\n".join((header, f"{total}\t{path}", *lines))


def file_size(size: int) -> str:
    """Return a number of bytes in the largest unit that is not above it: 0B, 1.5K, 2M."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    value = size / 1024**power
    return f"{int(value)}{UNITS[power]}" if value == int(value) else f"{value:.1f}{UNITS[power]}"


def replace_text(path: str, content: str, old: str, new: str) -> tuple[str, str]:
    """Put `new` in the place of `old`, which occurs once; return the content and the answer.

    Raise ToolError if `old` does not occur, or occurs more than once.
    """
    count = content.count(old)
    if count == 0:
        raise ToolError(
            "not_found", f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        )
    if count > 1:
        raise ToolError(
            "not_unique",
            f"No replacement was performed. Multiple occurrences of old_str `{old}` "
            f"in lines: {_lines_with(content, old)}. Please ensure it is unique",
        )
    changed = content.count("\n", 0, content.find(old))
    content = content.replace(old, new)
    lines = content.split("\n")
    start = max(0, changed - CONTEXT_LINES)
    snippet = numbered(lines[start : changed + CONTEXT_LINES + 1], start + 1)
    answer = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
    return content, f"{answer}{snippet}"


def insert_text(path: str, content: str, line: int, text: str) -> tuple[str, str]:
    """Insert a text after the line with this number, 0 for the beginning; return content and answer."""
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= line <= len(lines):
        raise ToolError(
            "invalid",
            f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}].",
            parameter="insert_line",
        )
    lines.insert(line, text.rstrip("\n"))
    content = "\n".join(lines)
    return content if content.endswith("\n") else f"{content}\n", f"The file {path} has been edited."


def _fitting(lines: Sequence[str]) -> int:
    """Return how many of the lines fit MAX_SHOWN_BYTES with their numbers, but at least one."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line.encode()) + len("123456\t\n")
        if size > MAX_SHOWN_BYTES:
            return max(1, number)
    return len(lines)


def _lines_with(content: str, text: str) -> str:
    """Return the numbers of the lines where the text begins; further ones than the first 100 are left out.

    Of a very long text fewer are shown, because each search for it takes long.
    """
    most = min(MAX_SHOWN_LINES_OF_MATCHES, MAX_SEARCHED_CHARACTERS // max(1, len(text)))
    numbers: list[str] = []
    line, end = 1, 0
    position = content.find(text)
    while position != -1 and len(numbers) < most:
        line += content.count("\n", end, position)
        numbers.append(str(line))
        end = position
        position = content.find(text, position + 1)
    return ", ".join(numbers) + (", …" if position != -1 else "")
