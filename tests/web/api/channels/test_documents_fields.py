"""Bodies and responses of documents."""

from storage.channels.documents import Document
from tests.web.api.checks import (
    BLANK,
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    accept,
    refuse,
    serve,
)
from web.api.channels.documents import DocumentBody, serialize_document


def test_document_is_plain_text_by_default() -> None:
    assert accept(DocumentBody(), {"title": "Notes", "content": " text "}) == {
        "agent_id": None,
        "project_id": None,
        "title": "Notes",
        "content": " text ",
        "content_type": "text/plain",
        "path": None,
    }


def test_title_and_content_type_may_not_be_blank() -> None:
    assert refuse(DocumentBody(), {"title": "", "content_type": " "}) == {
        "title": BLANK,
        "content_type": BLANK,
    }


def test_response_hides_the_organization() -> None:
    document = Document(ID, ORGANIZATION_ID, None, OTHER_ID, "Notes", "text", "text/plain", NOON, NOON)
    assert serve(serialize_document(document)) == {
        "id": ID_TEXT,
        "agent": None,
        "project": OTHER_ID_TEXT,
        "title": "Notes",
        "content": "text",
        "content_type": "text/plain",
        "created_at": NOON_TEXT,
        "updated_at": NOON_TEXT,
        "path": None,
        "version": 1,
        "author": "",
        "run": None,
        "deleted_at": None,
    }
