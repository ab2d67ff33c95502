"""Small operations and schemas."""

from web.openapi.schemas import Json


def schema_of(*names: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def operation(body: Json, answer: Json) -> Json:
    def content(schema: Json) -> Json:
        return {"content": {"application/json": {"schema": schema}}}

    return {"requestBody": content(body), "responses": {"200": content(answer)}}
