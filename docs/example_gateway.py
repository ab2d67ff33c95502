"""An SMS gateway to play with: it stands for your provider of text messages, and for the phones of customers.

It receives the texts that agents send (`POST /send`), as the tool of an adapter. A text of a customer
(`POST /text` with `from` and `body`) goes to the service as your provider would pass it on, and the answer to
this request is what the agent texts back. `docs/assistant.md` uses it. It needs only the standard library.
"""

import hmac
import json
import os
import re
from collections import defaultdict
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition
from urllib.parse import parse_qs, urlsplit

SERVICE, KEY, AGENT = os.environ["HOSTSVC_URL"], os.environ["HOSTSVC_KEY"], os.environ["HOSTSVC_AGENT"]
SECRET = os.environ["GATEWAY_SECRET"]  # the service sends it with each text, so that nobody else can send one
PATIENCE_SECONDS = 60

sent: dict[str, dict[str, str]] = defaultdict(dict)  # by number: the texts to it by their ids, which repeat
changed = Condition()


def digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def pass_on(number: str, body: str) -> None:
    """Give the text of a customer to the service, which finds the contact by the number, or creates it."""
    message = {"agent": AGENT, "channel": "sms", "direction": "inbound", "from": number, "body": body}
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection = HTTPConnection(urlsplit(SERVICE).netloc, timeout=PATIENCE_SECONDS)
    connection.request("POST", "/api/defaults/messages/", json.dumps(message), headers)
    response = connection.getresponse()
    if response.status != 201:
        raise RuntimeError(f"the service refused a text: {response.status} {response.read().decode()}")


class Gateway(BaseHTTPRequestHandler):
    """Answers the service and the customers."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/send":
            self.send(content)
        else:
            form = parse_qs(content.decode())
            self.text(form["from"][0], form["body"][0])

    def send(self, content: bytes) -> None:
        """Deliver a text of the agent."""
        if not hmac.compare_digest(self.headers["Authorization"] or "", f"Bearer {SECRET}"):
            self.answer(401, "Who are you?")
            return
        text = json.loads(content)["data"]["arguments"]
        with changed:
            sent[digits(text["to"])][text["message_id"]] = text["body"]
            changed.notify_all()
        self.answer(200, "")

    def text(self, number: str, body: str) -> None:
        """Pass a text of a customer on, and answer with the text that comes back."""
        answers = sent[digits(number)]
        before = len(answers)
        pass_on(number, body)
        with changed:
            if changed.wait_for(lambda: len(answers) > before, PATIENCE_SECONDS):
                self.answer(200, list(answers.values())[before])
            else:
                self.answer(504, "No answer came: look at the agent's supervisor.")

    def answer(self, status: int, text: str) -> None:
        content = f"{text}\n".encode() if text else b""
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: the service keeps all messages."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9200"))), Gateway).serve_forever()
