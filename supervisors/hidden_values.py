"""Secret values in texts that are stored or shown: their occurrences are replaced."""

from collections.abc import Iterable

HIDDEN = b"[secret]"
MIN_CHARACTERS = 6  # shorter texts occur by chance
MAX_WORDS = 256  # the longest of them; replacing thousands would hold up the event loop


def hide(content: bytes, values: Iterable[str]) -> bytes:
    """Return the content without these values and without their words, such as a key after `Bearer`.

    Short words stay, and so does a value in another form, such as Base64.
    """
    for word in _words(values):
        content = content.replace(word.encode(), HIDDEN)
    return content


def _words(values: Iterable[str]) -> list[str]:
    """Return the texts to look for, the longest first: a value may contain another one."""
    words: set[str] = set()
    for value in values:
        words |= {value.strip(), *value.split()}
    long_words = (word for word in words if len(word) >= MIN_CHARACTERS)
    return sorted(long_words, key=len, reverse=True)[:MAX_WORDS]
