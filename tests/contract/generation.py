"""The values that schemathesis generates: for formats it does not know, and ids of existing objects."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, Response

from tests.contract.leniency import Json
from web.fields import MONEY_DECIMALS
from web.openapi.requests import MONEY

AnyCase = Case[Any]

URL_PATTERN = r"https?://\S+"
TIMEZONES = ("UTC", "Europe/Vienna", "America/St_Johns", "Asia/Kathmandu")  # few, as each draw may try all
WEB_ADDRESS = r"https?://[a-z0-9]{1,9}\.example(:[1-9][0-9]{0,3})?(/[!-~]{0,20})?"
EMAIL_PATTERN = re.compile(r"\^\((?=.*@).*\)(\??)\$")
EMAIL_ADDRESS = r"[a-z0-9!+-]{1,9}(\.[A-Z0-9]{1,9})?@[a-z0-9]{1,9}\.example"
INSTANT = (
    r"[1-8][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])"
)

# The collection that the ids in a field are from. The ids in other fields are random.
REFERENCES = {
    "agent": "/api/cloud/agents/",
    "parent": "/api/cloud/agents/",
    "template": "/api/templates/",
    "adapter": "/api/toolbox/adapters/",
    "adapters": "/api/toolbox/adapters/",
    "contact": "/api/defaults/contacts/",
    "project": "/api/defaults/projects/",
    "trace": "/api/tracing/traces/",
    "ids": "/api/defaults/notifications/",
}
SUPERVISED = {"/status/supervisors/": "/api/cloud/agents/"}  # supervisors have the ids of their agents


def register_formats() -> None:
    schemathesis.openapi.format("iana-timezone", st.sampled_from(TIMEZONES))
    schemathesis.openapi.format("date-time", st.from_regex(INSTANT, fullmatch=True))


def narrow_urls(document: Json) -> None:
    """Generate URLs by a narrower pattern, because few texts that fit the document's are URLs."""
    for schema in _objects(document["components"]["schemas"]):
        pattern = str(schema.get("pattern"))
        if URL_PATTERN in pattern:
            schema["pattern"] = pattern.replace(URL_PATTERN, WEB_ADDRESS)


def narrow_emails(document: Json) -> None:
    """Generate email addresses by a narrower pattern: drawing by the document's takes most of a run."""
    for schema in _objects(document["components"]["schemas"]):
        if email := EMAIL_PATTERN.fullmatch(str(schema.get("pattern"))):
            schema["pattern"] = f"^({EMAIL_ADDRESS}){email[1]}$"


def make_money_of_millionths(document: Json) -> None:
    """Generate money in whole millionths, a rule that the document can state only in words."""
    for schema in _objects(document["components"]["schemas"]):
        if schema.get("exclusiveMaximum") == MONEY["exclusiveMaximum"]:
            schema["multipleOf"] = 10**-MONEY_DECIMALS


def make_json_by_its_schema(document: Json) -> None:
    """Generate JSON in forms by its schema, which schemathesis ignores for encoded values."""
    for content in _contents(document):
        for described in content.values():
            described.pop("encoding", None)


def leave_out_forms(document: Json) -> None:
    for content in _contents(document):
        for media_type in [each for each in content if each != "application/json"]:
            del content[media_type]


def _contents(document: Json) -> Iterator[Json]:
    """Yield the media types of each operation's body."""
    for operation in (operation for item in document["paths"].values() for operation in item.values()):
        yield operation.get("requestBody", {}).get("content", {})


class Known:
    """The ids of objects that were created and not deleted, by collection."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = defaultdict(list)

    def learn(self, case: AnyCase, response: Response) -> None:
        if response.status_code == 201 and "{" not in case.path:
            made = response.json()
            if isinstance(made, dict) and "id" in made:
                self._ids[case.path].append(made["id"])
        if response.status_code == 204:
            for ids in self._ids.values():
                if case.path_parameters.get("id") in ids:
                    ids.remove(case.path_parameters["id"])

    def point(self, case: AnyCase) -> None:
        """Replace most of the drawn ids with ids of existing objects."""
        if "id" in case.path_parameters:
            collection = case.path.partition("{")[0]
            self._put(case.path_parameters, "id", SUPERVISED.get(collection, collection))
        for holder in (case.body, case.query):
            if isinstance(holder, dict):
                for name, collection in REFERENCES.items():
                    self._put(holder, name, collection)

    def _put(self, holder: Json, name: str, collection: str) -> None:
        ids, drawn = self._ids[collection], holder.get(name)
        if ids and isinstance(drawn, list):
            holder[name] = [_one_of(ids, each) for each in drawn]
        elif ids and isinstance(drawn, str):
            holder[name] = _one_of(ids, drawn)


def _one_of(ids: list[str], drawn: object) -> Any:
    """Return one of the ids in three cases of four, else the drawn one."""
    try:
        number = UUID(str(drawn)).int
    except ValueError:
        return drawn
    return drawn if number % 4 == 3 else ids[number % len(ids)]


def _objects(value: Any) -> Iterator[Json]:
    """Yield each object in a JSON value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
