"""Descriptions that a body shares with the answer."""

from tests.web.openapi.operations import operation
from web.openapi.finishing import inherit_descriptions
from web.openapi.schemas import Components, Json


def described(**texts: str) -> Json:
    properties = {name: {"type": "string", "description": text} for name, text in texts.items()}
    return {"type": "object", "properties": properties}


def undescribed(*names: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def inherit(body: Json, answer: Json, components: Components) -> Json:
    sent = components.refer("ThingBody", "body", lambda: body)
    answered = components.refer("Thing", "answer", lambda: answer)
    inherit_descriptions([{"post": operation(sent, answered)}], components)
    return {name: field.get("description") for name, field in body["properties"].items()}


def test_body_field_has_description_of_the_answer() -> None:
    texts = inherit(undescribed("name", "secret"), described(name="Shown in lists."), Components())
    assert texts == {"name": "Shown in lists.", "secret": None}


def test_body_field_keeps_its_own_description() -> None:
    texts = inherit(described(name="Must be new."), described(name="Shown in lists."), Components())
    assert texts == {"name": "Must be new."}


def test_items_inherit_descriptions_too() -> None:
    components = Components()
    item = undescribed("url")
    body = {"properties": {"files": {"items": components.refer("FileBody", "file", lambda: item)}}}
    shown = components.refer("File", "shown", lambda: described(url="Where it is."))
    inherit(body, {"properties": {"files": {"items": shown}}}, components)
    assert item["properties"]["url"]["description"] == "Where it is."
