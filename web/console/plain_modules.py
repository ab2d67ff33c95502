"""Modules without their comments and indentation, which are for readers of the source."""

COMMENT = "//"
BLOCK_START = "/**"
BLOCK_END = "*/"


def without_comments(module: str) -> str:
    """Return a module without the comments that begin a line, and without indentation.

    Each line keeps its number. Comments behind code stay, so nothing inside a string is mistaken for one; a
    line of a string must therefore not begin with one of these marks.
    """
    lines = []
    is_block = False
    for line in map(str.strip, module.split("\n")):
        begins_block = not is_block and line.startswith(BLOCK_START)
        is_left_out = is_block or begins_block or line.startswith(COMMENT)
        lines.append("" if is_left_out else line)
        is_block = (is_block or begins_block) and BLOCK_END not in line
    return "\n".join(lines)
