"""The maximum number of values in JSON, checked before any of them is built."""

from web.errors import TooLarge

MAX_VALUES = 50_000  # in a body: checking this many takes about as long as other requests may have to wait
MAX_VALUES_OF_ITEMS = 200_000  # in a list of bodies, which a thread reads in about 30 ms


def check_value_count(raw: bytes, max_values: int) -> None:
    """Raise TooLarge for JSON of more than `max_values` values.

    Counts the separators `,`, `[` and `{`, so an empty list or object counts twice. Separators inside texts
    are left out in a second pass, which few bodies need.
    """
    if len(raw) <= max_values or _separators(raw) <= max_values:
        return
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quotation mark delimits a text
    has_too_many_texts = unescaped.count(b'"') > 4 * max_values  # each value may have a key
    if has_too_many_texts or _separators(b"".join(unescaped.split(b'"')[::2])) > max_values:
        raise TooLarge(f"The request body holds more than {max_values} values.")


def _separators(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")
