"""Bodies, queries and responses of projects."""

from storage.channels.projects import Project, ProjectStatus
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.channels.projects import ProjectBody, ProjectQuery, serialize_project


def test_project_needs_a_name_and_is_active() -> None:
    assert refuse(ProjectBody(), {}) == {"name": REQUIRED}
    assert accept(ProjectBody(), {"name": "Move"}) == {
        "agent_id": None,
        "name": "Move",
        "description": "",
        "status": ProjectStatus.ACTIVE,
    }


def test_query_accepts_only_known_statuses() -> None:
    assert refuse(ProjectQuery(), {"status": "lost"}) == {"status": ['"lost" is not a valid choice.']}


def test_response_hides_the_organization() -> None:
    project = Project(ID, ORGANIZATION_ID, OTHER_ID, "Move", "", ProjectStatus.DONE, NOON, NOON)
    assert serve(serialize_project(project)) == {
        "id": ID_TEXT,
        "agent": OTHER_ID_TEXT,
        "name": "Move",
        "description": "",
        "status": "done",
        "created_at": NOON_TEXT,
        "updated_at": NOON_TEXT,
    }
