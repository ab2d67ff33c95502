"""What schemathesis needs to know about the service: a credential, what exists, and what is no failure.

All checks are on. A failure is dropped for one of two reasons only, both of which the document's introduction
states: the request was written in another way that is accepted, too (`leniency`), or it was refused because
of the stored state (an unknown id, a name that is taken) and not because of its form.
"""

import os
import re
from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import count
from typing import Any

import requests
import schemathesis
from schemathesis import AuthContext, HookContext, Response
from schemathesis.core import NOT_SET
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import RejectedPositiveData

from tests.contract.generation import (
    AnyCase,
    Known,
    leave_out_forms,
    make_json_by_its_schema,
    make_money_of_millionths,
    narrow_emails,
    narrow_urls,
    register_formats,
)
from tests.contract.leniency import Json, Leniency
from tests.contract.sent import form_texts, query_texts

URL = os.environ["HOSTSVC_URL"]
USER_TOKEN = os.environ["HOSTSVC_USER_TOKEN"]
OPERATOR_TOKEN = os.environ["HOSTSVC_OPERATOR_TOKEN"]
TOOL_CALL = "/api/cloud/agents/{id}/tools/{name}/"
KEYS = "/api/organizations/api-keys/"
SIGNUP = "/api/organizations/auth/signup/"
CHANGE_PASSWORD = "/api/organizations/auth/password/"
FOR_PEOPLE = {"/api/organizations/auth/logout/", CHANGE_PASSWORD}
PASSWORD = "correct horse"
# A wait for events that do not come lasts to its end.
LONG_WAITS = {str(seconds) for seconds in range(2, 61)}

# Refusals for another reason than the form of the request: existing objects, or another field.
STATE = re.compile(
    r"cached_tokens: Ensure this value is less than or equal to [0-9]+\."
    r"|(model|password|tags|notifications|approve|answer): This field is required\."
    r"|(answer|arguments|grant): This decision has no such field\."
    r"|(config|config_schema|approval|answer|arguments): \$.*"
    r"|agent: Name either an agent or a template\."
    r"|only_if: \$.*"
    r"|config_schema: A \$ref may not leave the document\."
    r"|.*Invalid pk .* - object does not exist\."
    r"|.* already exists\."
    r"|.* is an address of the contact .*\."
    r"|(phone|other_addresses|from): .*(Enter|with \+ and its country code).*"
    r"|from: (Only one of from and contact may be given|Only an inbound message has a sender).*"
    r"|.*This message has no uploaded file with this address\."
    r"|path: (Path |Each name in a path|/memories is a directory|A document with a path|The path does not).*"
    r"|content: /memories/core\.md may have at most .*"
    r"|.*The fields .* must make a unique set\."
    r"|.*Only one of offset and after may be given\."
    r"|after: This is no position in a list of this order: .*"
    r"|(cron|schedules): (Give exactly one of|Write five fields|This is no cron expression|It never comes).*"
    r"|ends_at: It does not come before that\."
    r"|quiet_hours: .* is no period of quiet hours.*"
    r"|secret: Standard Webhooks need a secret in Base64.*"
    r"|urgent: Only a high notification can be urgent\."
    r"|.*The code is wrong, used or expired\."
    r"|.*Ensure this is not before started_at\."
    r"|.*This is not a trace of the agent\."
    r"|.*This is not the agent of the trace\."
    r"|.*This is not a span of the trace\."
    r"|.*A span may not be its own parent\."
    r"|.*start_date may not be after end_date\."
    r"|.*start must be before end\."
    r"|from: from must be before to\."
    r"|(from|wanted): Events are kept from .*"
    r"|to: The period must be over: .*"
    r"|as_of: Choose a past moment after the notification came.*"
    r"|.*The period may be at most [0-9]+ days long: .*"
    r"|at: This moment (has passed|lies ahead|may be at most).*"
    r"|(tags|reason|notifications): Only .* takes? .*"
    r"|agents: Give (the ids of agents, or match|either agents or match).*"
    r"|(agents|match): unclear takes notifications.*"
    r"|.*An archived agent does not sleep\."
    r"|.*An agent may not be its own ancestor\."
    r"|.*parse error - too many fields"
    r"|.*Ensure integers are between -9223372036854775808 and 18446744073709551615\."
    r"|.*This Idempotency-Key was used with another request body\.",
    re.DOTALL,  # some quote what was sent
)

DOCUMENT: Json = requests.get(f"{URL}/api/schema/", timeout=10).json()
LENIENCY = Leniency(DOCUMENT)

known = Known()
addresses = count(int(IPv4Address("10.0.0.1")))
register_formats()


@schemathesis.auth(refresh_interval=None)
class Credential:
    """Authenticates with a key, which is replaced if it may be lost, or with a token where one is needed."""

    key = ""
    token = ""

    def get(self, case: AnyCase, context: AuthContext) -> str:
        if case.path.startswith(("/status/", "/metrics")):
            return f"Bearer {OPERATOR_TOKEN}"
        if case.path in FOR_PEOPLE:
            Credential.token = Credential.token or _new_user_token()
            return f"Token {Credential.token}"
        if not Credential.key:
            headers = {"Authorization": f"Token {USER_TOKEN}"}
            answer = requests.post(URL + KEYS, {"name": "fuzz"}, headers=headers, timeout=10)
            Credential.key = answer.json()["key"]
        return f"Bearer {Credential.key}"

    def set(self, case: AnyCase, data: str, context: AuthContext) -> None:
        case.headers["Authorization"] = data


def _new_user_token() -> str:
    """Return the token of a new user, for routes that end the token they are called with."""
    address = next(addresses)
    body = {"email": f"{address}@example.org", "password": PASSWORD, "organization_name": "Fuzz"}
    headers = {"X-Forwarded-For": str(IPv4Address(address))}
    return str(requests.post(URL + SIGNUP, body, headers=headers, timeout=10).json()["token"])


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: Json) -> None:
    narrow_urls(raw_schema)
    make_money_of_millionths(raw_schema)
    make_json_by_its_schema(raw_schema)
    if "HOSTSVC_SHORT_FUZZ" in os.environ:
        leave_out_forms(raw_schema)
        narrow_emails(raw_schema)


@schemathesis.hook
def before_call(context: HookContext, case: AnyCase, kwargs: Json) -> None:
    """Write forms as the service expects them, and point most valid requests at existing objects."""
    # Each comes from another address, or the limit on guesses would refuse everything after ten of them.
    case.headers["X-Forwarded-For"] = str(IPv4Address(next(addresses)))
    case.headers["Accept"] = "application/json"  # an event stream would not end
    if "wait" in case.query and str(case.query["wait"]) in LONG_WAITS:
        case.query["wait"] = "1"
    if isinstance(case.body, dict) and case.media_type != "application/json":
        case.body = LENIENCY.written_as_form(case.body, _media_type(case))
    if case.meta is not None and case.meta.generation.mode.is_positive:
        known.point(case)
        if case.path == CHANGE_PASSWORD and isinstance(case.body, dict):
            case.body["current_password"] = PASSWORD


@schemathesis.hook
def after_call(context: HookContext, case: AnyCase, response: Response) -> None:
    known.learn(case, response)
    if response.status_code < 300 and case.path.startswith(KEYS) and case.method in {"PATCH", "DELETE"}:
        Credential.key = ""
    if response.status_code < 300 and case.path in FOR_PEOPLE:
        Credential.token = ""


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: AnyCase, response: Response) -> bool:
    """Return whether the failure counts."""
    match failure:
        case AcceptedNegativeData():
            return not _is_another_way_to_write_it(case, response)
        case RejectedPositiveData():
            return not _is_state(case, response.json())
        case _:
            return True


def _is_state(case: AnyCase, refusal: Json) -> bool:
    """Return whether a well-formed request was refused because of the state it met."""
    if case.path == TOOL_CALL and "error" in refusal:
        return True  # each tool defines its arguments
    return all(STATE.fullmatch(message) for message in _messages(refusal))


def _is_another_way_to_write_it(case: AnyCase, response: Response) -> bool:
    operation = _operation(case)
    parameters = [each for each in operation["parameters"] if each.get("in") == "query"]
    query_schema = {
        "type": "object",
        "properties": {each["name"]: each["schema"] for each in parameters},
        "required": [each["name"] for each in parameters if each["required"]],
    }
    query = LENIENCY.read_texts(query_texts(response.request), query_schema)
    return LENIENCY.allows(query, query_schema) and _is_another_body(case, response)


def _is_another_body(case: AnyCase, response: Response) -> bool:
    described = _operation(case).get("requestBody")
    if described is None:
        return True
    if case.body is NOT_SET:
        return not described["required"]
    media_type = _media_type(case)
    schema = media_type["schema"]
    if case.media_type == "application/json":
        return LENIENCY.allows(case.body, schema)
    texts = form_texts(response.request)
    return LENIENCY.allows(LENIENCY.read_form(texts, schema, media_type.get("encoding", ())), schema)


def _operation(case: AnyCase) -> Json:
    operation: Json = DOCUMENT["paths"][case.path][case.operation.method.lower()]
    return operation


def _media_type(case: AnyCase) -> Json:
    described: Json = _operation(case)["requestBody"]["content"][case.media_type]
    return described


def _messages(body: Any, name: str = "") -> Iterator[str]:
    """Yield all messages of a refusal, each with its field."""
    match body:
        case str():
            yield f"{name}: {body}"
        case list():
            for item in body:
                yield from _messages(item, name)
        case dict():
            for inner, item in body.items():
                yield from _messages(item, inner)
