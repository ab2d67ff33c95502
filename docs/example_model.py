"""A model to play with: it speaks OpenAI's chat-completions protocol, and answers texts by simple rules.

It keeps nothing between two requests. It knows what the request tells it: the first message of the run, and
the results of the tools that it has called since then. `docs/assistant.md` uses it in the place of a real
model, because it is free and always says the same. It needs only the standard library.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

FACT = re.compile(r"\bmy (\w+) is ([^.!?]+)", re.IGNORECASE)  # "my bike is a green Brompton"
LINE = re.compile(r"^(?:\s*\d+\t)?(\w+): (.+)$", re.MULTILINE)  # of a memory, with its number if it is viewed


@dataclass
class Customer:
    """A contact with an unanswered text."""

    contact_id: str
    texts: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The memory about this customer."""
        return f"/memories/customers/{self.contact_id}.md"


@dataclass
class Wake:
    """What waits for the agent, and its core memory."""

    notifications: list[str] = field(default_factory=list)  # their ids
    customers: list[Customer] = field(default_factory=list)
    core_memory: str = ""


def read_wake(message: str) -> Wake:
    """Read the first message of a run: each of its lines that begins with { is JSON."""
    wake = Wake()
    for line in message.splitlines():
        if not line.startswith("{"):
            continue
        data = json.loads(line)
        if "contact_id" in data:  # the messages of this contact follow
            wake.customers.append(Customer(data["contact_id"]))
        elif data.get("from") == "contact":
            wake.customers[-1].texts.append(data["text"])
        elif data.get("from") == "you":  # what the contact wrote before that is answered
            wake.customers[-1].texts.clear()
        elif "priority" in data:
            wake.notifications.append(data["id"])
        elif "content" in data:
            wake.core_memory = data["content"]
    wake.customers = [customer for customer in wake.customers if customer.texts]
    return wake


def answer(customer: Customer, known: dict[str, str], core: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the answer to the texts of a customer, and the facts in them that are new."""
    text = " ".join(customer.texts)
    told = {thing.lower(): value.strip() for thing, value in FACT.findall(text)}
    said = [f"Noted: your {thing} is {value}." for thing, value in told.items()]
    asked = " ".join(re.findall(r"[^.!?]*\?", text)).lower()
    words = set(re.findall(r"\w+", asked))
    said += [f"Your {thing} is {value}." for thing, value in (known | told).items() if thing in words]
    said += [f"{subject.capitalize()}: {value}." for subject, value in core.items() if subject in words]
    if not said:
        said = ["I do not know that; I will ask in the workshop." if asked else "Thank you for the message."]
    return " ".join(said), {thing: value for thing, value in told.items() if known.get(thing) != value}


def remember(customer: Customer, view: str, new: dict[str, str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the calls that write new facts into the memory about a customer, which `view` shows."""
    lines = "".join(f"{thing}: {value}\n" for thing, value in new.items())
    if not view:
        yield "memory", {"command": "create", "path": customer.path, "file_text": lines}
        return
    changed = {thing: value for thing, value in LINE.findall(view) if thing in new}
    for thing, value in changed.items():
        edit = {"old_str": f"{thing}: {value}", "new_str": f"{thing}: {new[thing]}"}
        yield "memory", {"command": "str_replace", "path": customer.path, **edit}
    added = "".join(f"{thing}: {value}\n" for thing, value in new.items() if thing not in changed)
    if added:
        yield "memory", {"command": "insert", "path": customer.path, "insert_line": 0, "insert_text": added}


def read_queue(notifications: list[dict]) -> Wake:
    """Read the result of list_notifications: what came during the run."""
    customers: dict[str, Customer] = {}
    for each in notifications:
        if each["source"] == "sms":
            contact_id = each["source_id"]
            customers.setdefault(contact_id, Customer(contact_id)).texts.append(each["body"])
    return Wake([each["id"] for each in notifications], list(customers.values()))


def next_calls(messages: list[dict]) -> list[tuple[str, dict[str, object]]]:
    """Return the tool calls of the next turn: look up, then answer and remember, then clear, then sleep.

    If sleep is refused, something has come during the run: list it, and begin again with that.
    """
    start = max(place for place, message in enumerate(messages) if _is_wake(message))
    wake = read_wake(messages[start]["content"])
    core = {subject.lower(): value for subject, value in LINE.findall(wake.core_memory)}
    called = [""]  # the tools of each turn
    results: list[dict] = []
    for message in messages[start:]:
        if message["role"] == "assistant":
            called.append(message["tool_calls"][0]["function"]["name"])
        elif message["role"] == "tool":
            results.append(json.loads(message["content"]))
            if called[-1] == "list_notifications":
                wake, called, results = read_queue(results[-1]["result"]), [""], []
    match called[-1]:
        case "" if wake.customers:
            return [("memory", {"command": "view", "path": customer.path}) for customer in wake.customers]
        case "memory" if len(called) == 2:
            return list(answer_all(wake, results, core))
        case "" | "memory" | "send_sms" if wake.notifications:
            return [("clear_notification", {"notification_id": each}) for each in wake.notifications]
        case "sleep":
            return [("list_notifications", {})]
        case _:
            return [("sleep", {})]


def answer_all(
    wake: Wake, results: list[dict], core: dict[str, str]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the calls that answer the customers, and write down what they say; `results` are the views."""
    for customer, result in zip(wake.customers, results, strict=True):
        view = result.get("result", "")  # an error: there is no such memory yet
        body, new = answer(customer, dict(LINE.findall(view)), core)
        if new:
            yield from remember(customer, view, new)
        yield "send_sms", {"contact_id": customer.contact_id, "body": body}


def _is_wake(message: dict) -> bool:
    return message["role"] == "user" and message["content"].startswith("You are ")


def tokens_of(value: object) -> int:
    """Return about how many tokens a tokenizer would count."""
    return len(json.dumps(value)) // 4


def _tool_call(name: str, arguments: dict[str, object]) -> dict:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{uuid4().hex}", "type": "function", "function": function}


class Completions(BaseHTTPRequestHandler):
    """Answers POST /v1/chat/completions."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        calls = [_tool_call(*call) for call in next_calls(body["messages"])]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        usage = {"prompt_tokens": tokens_of(body), "completion_tokens": tokens_of(calls)}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        content = json.dumps({"model": body["model"], "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: the service's traces show each request."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9100"))), Completions).serve_forever()
