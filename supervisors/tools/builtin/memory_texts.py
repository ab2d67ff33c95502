"""The answers and edits of the tool `memory`, as pure functions of contents and entries.

The texts and rules are those of the memory tool that models are trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from storage.channels.memories import DirectoryEntry
from supervisors.tools.errors import ToolError

MAX_LINES = 999_999
MAX_SHOWN_BYTES = 100_000  # of a file that is viewed; a longer result would be cut within a line
MAX_SHOWN_LINES_OF_MATCHES = 100
MAX_SEARCHED_CHARACTERS = 1_000_000  # of the texts that are compared to find these lines
CONTEXT_LINES = 2
UNITS = ("B", "K", "M", "G")


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
