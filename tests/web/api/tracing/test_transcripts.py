"""The endpoint that reads a trace as a conversation."""

from typing import Any

from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import SETTINGS, Api
from web.json import to_json

TRACES = "/api/tracing/traces/"
SPANS = "/api/tracing/spans/"


def call(number: int, told: str, said: str) -> dict[str, Any]:
    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    return {
        "name": "chat gpt",
        "span_type": "llm",
        "started_at": f"2026-01-01T00:00:{number:02}Z",
        "metadata": {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [message("user", told)],
            "gen_ai.output.messages": [message("assistant", said)],
        },
    }


async def traced(api: Api, *spans: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Create a trace with these spans; return it with the path of its transcript."""
    agent = await api.create_agent()
    trace = await api.create(TRACES, agent=agent["id"], name="night")
    for span in spans:
        await api.create(SPANS, trace=trace["id"], **span)
    return trace, f"{TRACES}{trace['id']}/transcript/"


async def test_transcript_of_a_harness_is_its_conversation(api: Api) -> None:
    trace, path = await traced(api, call(1, "Hello!", "Hi."), call(2, "Tea?", "Yes."))

    body = (await api.get(path)).body

    assert {name: body[name] for name in ("trace", "agent", "name", "error", "tools")} == {
        "trace": trace["id"],
        "agent": trace["agent"],
        "name": "night",
        "error": "",
        "tools": [],
    }
    assert [(entry["role"], entry["text"]) for entry in body["entries"]] == [
        ("user", "Hello!"),
        ("assistant", "Hi."),
        ("user", "Tea?"),
        ("assistant", "Yes."),
    ]


async def test_transcript_is_read_in_pages_of_bounded_bytes(api: Api) -> None:
    half = "x" * (SETTINGS.limits.span_metadata_bytes // 2)
    _, path = await traced(api, *(call(number, half, str(number)) for number in range(5)))
    url, said, sizes = path, [], []
    while url:
        answer = await api.get(url)
        said.append([entry["text"] for entry in answer.body["entries"] if entry["role"] == "assistant"])
        sizes.append(len(to_json(answer.body)))
        url = answer.headers.get("Link", "").partition("<")[2].partition(">")[0]

    assert said == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert max(sizes) < SETTINGS.limits.span_metadata_bytes


async def test_transcript_goes_on_after_a_span(api: Api) -> None:
    _, path = await traced(api, *(call(number, "Hello!", str(number)) for number in range(3)))

    first = await api.get(f"{path}?limit=2")
    second = await api.get(first.headers["Link"].partition("<")[2].partition(">")[0])

    assert [[entry["text"] for entry in page.body["entries"]][1::2] for page in (first, second)] == [
        ["0", "1"],
        ["2"],
    ]
    assert "Link" not in second.headers
    refused = await api.get(f"{path}?after={UNKNOWN_ID}")
    assert (refused.status, list(refused.body)) == (400, ["after"])
