"""A stand-in for curl with the options that the documents use, for machines without curl."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

FORM = "application/x-www-form-urlencoded"


def environment_with_curl(directory: Path) -> Mapping[str, str]:
    """Return an environment in which a shell finds curl: the machine's own, or this one in `directory`."""
    if shutil.which("curl"):
        return os.environ
    stand_in = directory / "curl"
    stand_in.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(__file__)} "$@"\n')
    stand_in.chmod(0o755)
    return os.environ | {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-i", action="store_true")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data", action="append", default=[])
    parser.add_argument("--data-urlencode", dest="texts", action="append", default=[])
    parser.add_argument("-w", dest="ending", default="")
    parser.add_argument("url")
    options = parser.parse_args()
    texts = (text.partition("=") for text in options.texts)
    body = "&".join([*options.data, *(f"{name}={quote_plus(value)}" for name, _, value in texts)])
    headers = {"Content-Type": FORM} if body else {}
    for header in options.headers:
        name, _, value = header.partition(":")
        headers[name.strip().title()] = value.strip()
    url = urlsplit(options.url)
    connection = HTTPConnection(url.netloc)
    target = f"{url.path}?{url.query}" if url.query else url.path
    connection.request(options.method or ("POST" if body else "GET"), target, body.encode() or None, headers)
    answer = connection.getresponse()
    if options.i:
        head = [f"HTTP/1.1 {answer.status} {answer.reason}", *(f"{n}: {v}" for n, v in answer.getheaders())]
        sys.stdout.write("\r\n".join([*head, "", ""]))
    sys.stdout.write(answer.read().decode())
    sys.stdout.write(options.ending.replace("%{http_code}", str(answer.status)).replace("\\n", "\n"))


if __name__ == "__main__":
    main()
