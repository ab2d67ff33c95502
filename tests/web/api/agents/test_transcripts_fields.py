"""The response about an entry of a transcript."""

from storage.history.transcripts import TranscriptTurn, TurnKind
from storage.postgres.json_values import EncodedJson
from tests.web.api.checks import ID, ID_TEXT, NOON, NOON_TEXT, OTHER_ID, OTHER_ID_TEXT, serve
from web.api.agents.context import serialize_turn


def test_long_messages_are_passed_on_as_they_are_stored() -> None:
    messages = EncodedJson(b'[{"role":"user","text":"Hello"}]')
    turn = TranscriptTurn(
        ID, OTHER_ID, OTHER_ID, TurnKind.SUMMARY, messages, 5, carried=True, created_at=NOON
    )
    assert serve(serialize_turn(turn)) == {
        "id": ID_TEXT,
        "agent": OTHER_ID_TEXT,
        "run": OTHER_ID_TEXT,
        "kind": "summary",
        "messages": [{"role": "user", "text": "Hello"}],
        "tokens": 5,
        "carried": True,
        "created_at": NOON_TEXT,
    }
