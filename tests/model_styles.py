"""Two styles of models that follow instructions, scripted: one talks much, the other only acts.

They know nothing of the service but what a request says. They call a tool only if the system message names
it and the request offers it, and they take ids and texts only from the messages. So a change of the wording
that leaves out a step, a tool or an id shows in what they do.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tests.openai_endpoint import Json, Says

Call = tuple[str, Json]


def terse(body: Json) -> Says:
    """Do everything in one turn, without a word, and sleep in the next."""
    calls = _to_do(body)
    return _say("", calls or [("sleep", {})], body)


def talkative(body: Json) -> Says:
    """Act in small steps with many words, and end with a text, without clearing; clear when reminded."""
    calls = _to_do(body)
    answers = [call for call in calls if call[0] == "send_message"]
    was_reminded = len(_messages(body, "user")) > 1
    if answers:
        return _say("Somebody is waiting for me, so let me answer first.", answers[:1], body)
    if not was_reminded:
        return Says("Wonderful! I have dealt with everything, and I wish you a nice day.")
    if calls:
        return _say("You are right, that is dealt with. I clear it now.", calls[:1], body)
    return _say("Everything is done, so I go to sleep.", [("sleep", {})], body)


def _to_do(body: Json) -> list[Call]:
    """Return what the first message asks for and no earlier turn has done: answers, then clearings."""
    made = [call["function"] for call in _calls(body)]
    done = {(call["name"], _key(orjson.loads(call["arguments"]))) for call in made}
    return [call for call in _duties(body) if (call[0], _key(call[1])) not in done]


def _duties(body: Json) -> list[Call]:
    data = _data(body)
    high = [one for one in data if one.get("priority") == "high"]
    writers = {one.get("source_id") for one in high}
    answers: list[Call] = [
        ("send_message", {"contact_id": contact_id, "body": f"You wrote: {last['text']}"})
        for contact_id, last in _last_messages(data).items()
        if contact_id in writers and last.get("from") == "contact"
    ]
    return answers + [("clear_notification", {"notification_id": one["id"]}) for one in high]


def _last_messages(data: Sequence[Json]) -> dict[str, Json]:
    """Return the last message of each conversation by its contact."""
    last: dict[str, Json] = {}
    contact = ""
    for one in data:
        contact = one.get("contact_id", contact)
        if "text" in one:
            last[contact] = one
    return last


def _say(text: str, calls: Sequence[Call], body: Json) -> Says:
    known = [call for call in calls if call[0] in _known_tools(body)]
    return Says(text, [(name, orjson.dumps(arguments).decode()) for name, arguments in known])


def _known_tools(body: Json) -> set[str]:
    """Return the tools that the request offers and the system message names."""
    named = set(re.findall(r"\w+", _messages(body, "system")[0]["content"]))
    return {tool["function"]["name"] for tool in body["tools"]} & named


def _data(body: Json) -> list[Json]:
    lines = _first_message(body)["content"].splitlines()
    return [orjson.loads(line) for line in lines if line.startswith("{")]


def _first_message(body: Json) -> Json:
    return _messages(body, "user")[0]


def _messages(body: Json, role: str) -> list[Json]:
    return [message for message in body["messages"] if message["role"] == role]


def _calls(body: Json) -> list[Json]:
    return [call for message in _messages(body, "assistant") for call in message.get("tool_calls") or ()]


def _key(arguments: Mapping[str, Any]) -> str:
    return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()
