"""A stand-in for curl with the options that the documents use, for machines without curl."""

import argparse
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

FORM = "application/x-www-form-urlencoded"
BOUNDARY = "boundary-of-the-parts"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"


def environment_with_curl(directory: Path) -> Mapping[str, str]:
    """Return an environment in which a shell finds curl: the machine's own, or this one in `directory`."""
    if shutil.which("curl"):
        return os.environ
    stand_in = directory / "curl"
    stand_in.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(__file__)} "$@"\n')
    stand_in.chmod(0o755)
    return os.environ | {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}


def multipart(parts: Sequence[str]) -> bytes:
    """Return the body of a form; the file `@-` is read from standard input."""
    body = b""
    for part in parts:
        name, _, value = part.partition("=")
        head, content = f'Content-Disposition: form-data; name="{name}"', value.encode()
        if value.startswith("@-;"):
            options = dict(option.split("=") for option in value.split(";")[1:])
            head += f'; filename="{options["filename"]}"\r\nContent-Type: {options["type"]}'
            content = sys.stdin.buffer.read()
        body += f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + content + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


def write_body(answer: HTTPResponse, ends_at: float | None) -> None:
    """Write the body as it comes, until a moment of the monotonic clock if there is one."""
    with suppress(TimeoutError):
        while piece := answer.read1(65_536):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            if ends_at is not None and time.monotonic() >= ends_at:
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-i", action="store_true")
    parser.add_argument("-N", action="store_true")
    parser.add_argument("--max-time", type=float)
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data", action="append", default=[])
    parser.add_argument("--data-urlencode", dest="texts", action="append", default=[])
    parser.add_argument("-F", dest="parts", action="append", default=[])
    parser.add_argument("-w", dest="ending", default="")
    parser.add_argument("url")
    options = parser.parse_args()
    texts = (text.partition("=") for text in options.texts)
    form = "&".join([*options.data, *(f"{name}={quote_plus(value)}" for name, _, value in texts)])
    body = multipart(options.parts) if options.parts else form.encode()
    headers = {"Content-Type": MULTIPART if options.parts else FORM} if body else {}
    for header in options.headers:
        name, _, value = header.partition(":")
        headers[name.strip().title()] = value.strip()
    url = urlsplit(options.url)
    ends_at = None if options.max_time is None else time.monotonic() + options.max_time
    connection = HTTPConnection(url.netloc, timeout=options.max_time)
    target = f"{url.path}?{url.query}" if url.query else url.path
    connection.request(options.method or ("POST" if body else "GET"), target, body or None, headers)
    answer = connection.getresponse()
    if options.i:
        head = [f"HTTP/1.1 {answer.status} {answer.reason}", *(f"{n}: {v}" for n, v in answer.getheaders())]
        sys.stdout.write("\r\n".join([*head, "", ""]))
        sys.stdout.flush()
    write_body(answer, ends_at)
    sys.stdout.write(options.ending.replace("%{http_code}", str(answer.status)).replace("\\n", "\n"))


if __name__ == "__main__":
    main()
