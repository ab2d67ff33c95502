"""Secret values in texts that are stored or shown: their occurrences are replaced."""

import json
from collections.abc import Iterable

HIDDEN = b"[secret]"
MIN_CHARACTERS = 6  # shorter texts occur by chance
MAX_WORDS = 256  # the longest of them; replacing thousands would hold up the event loop


def hide(content: bytes, values: Iterable[str]) -> bytes:
    """Return the content without these values and without their words, such as a key after `Bearer`.

    They are also replaced as JSON writes them. Short words stay, and so does a value in another form, such as
    Base64.
    """
    for word in _words(values):
        for form in _forms(word):
            content = content.replace(form.encode(), HIDDEN)
    return content


def _words(values: Iterable[str]) -> list[str]:
    """Return the texts to look for, the longest first: a value may contain another one."""
    words: set[str] = set()
    for value in values:
        words |= {value.strip(), *value.split()}
    long_words = (word for word in words if len(word) >= MIN_CHARACTERS)
    return sorted(long_words, key=len, reverse=True)[:MAX_WORDS]


def _forms(word: str) -> set[str]:
    """Return the word as it is, and as JSON texts contain it, some of which escape `/` and umlauts."""
    escaped = {json.dumps(word, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    return {word, *escaped, *(text.replace("/", "\\/") for text in escaped)}
