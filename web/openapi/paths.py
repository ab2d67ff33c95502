"""The description of paths and headers: their parameters, and the tags under which operations are listed."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from web.openapi.schemas import Json

PARAMETER = re.compile(r"\{(\w+)\}")

TAGS = {
    "auth": "Signing up, logging in and passwords. The answers hold the token that people send as `Token …`.",
    "organizations": "Organizations own everything else. A user may belong to several.",
    "limits": "The limits of an organization, and how much of each is in use.",
    "memberships": "The users of an organization and their roles.",
    "invites": "Invitations to join an organization.",
    "api-keys": "API keys, with which programs act for an organization.",
    "secrets": "Secrets for the code and the tools of agents. Their values can be written, but not read.",
    "audit-log": "Who did what to which resource of an organization, when and from where.",
    "webhooks": "Event webhooks: addresses that get an organization's events as signed requests.",
    "hooks": "Inbound hooks: addresses at which other services deliver events to agents.",
    "webhook-deliveries": "What was sent, or is to be sent, to event webhooks and the webhooks of templates.",
    "templates": "Settings that many agents share.",
    "adapters": "Adapters group the tools that an agent can be given.",
    "tools": "The tools of adapters: HTTP endpoints of yours that agents call.",
    "adapter-configs": "The configuration of an adapter for the agents of a template.",
    "agents": "Agents, with their runs, tools and usage. An agent runs when something wakes it, then sleeps.",
    "runs": "The runs of all agents together.",
    "supervisors": "Agents with what they do and why, in the order of your choice.",
    "attention": "What failed and needs a person, to be sent again or dismissed.",
    "rewind": "What would have happened in a period that is over, under other settings.",
    "overview": "What the agents of your organizations do, what needs a person, and who wakes next.",
    "usage": "What the model calls of all agents together used and cost.",
    "notifications": "The queue of each agent. High-priority ones wake it and keep it awake until cleared.",
    "schedules": "What puts a notification into the queue of an agent again and again, at set times.",
    "approvals": "Calls and questions of agents that wait for a person's decision, or for a result.",
    "approval-grants": "Calls that need no decision any more, because a person has said so.",
    "contacts": "The people that agents are in touch with.",
    "messages": "Messages between agents and contacts. An inbound one also notifies its agent.",
    "attachments": "Files that were uploaded with messages.",
    "events": "The record: every change of an agent, live and afterwards.",
    "tickets": "Tickets with which browsers open event streams.",
    "documents": "Texts that agents keep or are given.",
    "projects": "Pieces of work, by which documents can be grouped.",
    "traces": "Traces record what happened in a run, or in a program of yours.",
    "spans": "Spans are the steps of a trace, such as one call of a model or a tool.",
    "service": "Health, status and metrics, for the operators of the service.",
    "schema": "This document for programs.",
    "docs": "This document for people.",
}

IDS = {  # by the part of the path before the parameter, where there is more to say than whose id it is
    "memberships": "The id of the membership, which is not that of its user.",
    "api-keys": "The id of the API key, which is not its prefix.",
    "webhooks": "The id of the event webhook.",
    "webhook-deliveries": "The id of the delivery; receivers get it as `webhook-id`.",
    "runs": "The id of the run, which is also that of its trace.",
    "supervisors": "The id of the agent.",
    "attachments": "The id of the attachment, as `attachments` of its message shows it.",
}
NAMES = {  # of parameters that are no ids
    "name": "The name of the tool, as the list of the agent's tools shows it.",
    "schedules": "The name of the schedule, which is unique for its agent.",
    "number": "The number of the version; 1 is the first version.",
}


def tag(path: str) -> str:
    """Return the subject of a path: `agents` for all paths below `/api/cloud/agents/`."""
    parts = path.strip("/").split("/")
    if parts[0] != "api" or len(parts) == 1:
        return "service"
    return parts[2] if len(parts) > 2 and not parts[2].startswith("{") else parts[1]


def tags(paths: Iterable[str]) -> list[Json]:
    """Describe the tags of these paths."""
    return [{"name": name, "description": TAGS.get(name, "")} for name in dict.fromkeys(map(tag, paths))]


def path_parameters(path: str) -> list[Json]:
    """Describe the parameters of a path."""
    return [
        _path_parameter(match[1], collection)
        for collection, part in pairwise(path.split("/"))
        if (match := PARAMETER.fullmatch(part))
    ]


def _path_parameter(name: str, collection: str) -> Json:
    is_id = name == "id" or name.endswith("_id")
    id_text = IDS.get(collection) or f"The id of the {collection.removesuffix('s').replace('-', ' ')}."
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": id_text if is_id else NAMES.get(collection) or NAMES.get(name, ""),
        "schema": {"type": "string", **({"format": "uuid"} if is_id else {"minLength": 1})},
    }


def request_header(name: str, description: str, *, required: bool = False, **limits: Any) -> Json:
    """Describe a header of requests."""
    schema = {"type": "string", **limits}
    return {"name": name, "in": "header", "required": required, "description": description, "schema": schema}
