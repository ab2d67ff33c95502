"""What the API takes: typed dicts. An enum may be written as its text.

Written by `make client` from the API document; do not edit.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Required, TypeAlias

    from hostsvc_client.models import (
        ActorType,
        AgendaKind,
        AgentAction,
        AgentSort,
        AgentStatus,
        AheadKind,
        Algorithm,
        ApprovalMode,
        AttentionAction,
        AttentionKind,
        BandPhase,
        CallKind,
        CallState,
        CarryOver,
        Channel,
        ChatRole,
        CredentialKind,
        DeliveryStatus,
        Direction,
        Encoding,
        EventType,
        IfUncleared,
        LimitScope,
        MessageStatus,
        OccurrenceOutcome,
        OnlyIf,
        Outcome,
        PausedReason,
        Phase,
        Priority,
        ProjectStatus,
        PromptOwner,
        Purpose,
        ReasoningEffort,
        Reply,
        Role,
        RunAnswer,
        Scope,
        ServiceState,
        ShownPhase,
        Source,
        SpanExpansion,
        Speaker,
        StopReply,
        ToolChoice,
        TurnKind,
        Unpriced,
        Verification,
        Visibility,
        WakeIf,
    )

RoleValue: TypeAlias = "Role | Literal['owner', 'admin', 'member']"
CredentialKindValue: TypeAlias = "CredentialKind | Literal['user', 'api_key']"
UnpricedValue: TypeAlias = "Unpriced | Literal['refuse', 'allow']"
LimitScopeValue: TypeAlias = "LimitScope | Literal['organization', 'credential', 'user', 'agent', 'trace']"
DeliveryStatusValue: TypeAlias = "DeliveryStatus | Literal['pending', 'delivered', 'failed']"
VerificationValue: TypeAlias = (
    "Verification | Literal['standard', 'github', 'stripe', 'slack', 'hmac', 'token']"
)
AlgorithmValue: TypeAlias = "Algorithm | Literal['sha256', 'sha512', 'sha1']"
EncodingValue: TypeAlias = "Encoding | Literal['hex', 'base64']"
SourceValue: TypeAlias = "Source | Literal['email', 'sms', 'mms', 'sms_provider_a', 'sms_provider_b', 'system', 'agent', 'subagent', 'browser', 'api', 'portal']"
PriorityValue: TypeAlias = "Priority | Literal['high', 'low']"
ActorTypeValue: TypeAlias = (
    "ActorType | Literal['run', 'key', 'user', 'operator', 'hook', 'link', 'program', 'service']"
)
ReasoningEffortValue: TypeAlias = (
    "ReasoningEffort | Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh']"
)
CarryOverValue: TypeAlias = "CarryOver | Literal['none', 'journal', 'transcript']"
ReplyValue: TypeAlias = "Reply | Literal['tool', 'text']"
ToolChoiceValue: TypeAlias = "ToolChoice | Literal['auto', 'required', 'none']"
VisibilityValue: TypeAlias = "Visibility | Literal['public', 'private']"
ApprovalModeValue: TypeAlias = "ApprovalMode | Literal['never', 'always', 'first_use']"
AgentActionValue: TypeAlias = "AgentAction | Literal['pause', 'resume', 'stop', 'archive', 'restore', 'clear', 'unclear', 'tag', 'untag']"
PurposeValue: TypeAlias = "Purpose | Literal['production', 'eval', 'dev']"
AgentStatusValue: TypeAlias = "AgentStatus | Literal['running', 'sleeping', 'archived']"
ShownPhaseValue: TypeAlias = "ShownPhase | Literal['asleep', 'holding', 'queued', 'backing_off', 'quarantined', 'over_budget', 'held_by_limits', 'paused', 'running', 'stopping', 'archived']"
ChannelValue: TypeAlias = "Channel | Literal['email', 'sms', 'mms', 'sms_provider_a', 'sms_provider_b']"
DirectionValue: TypeAlias = "Direction | Literal['inbound', 'outbound']"
MessageStatusValue: TypeAlias = "MessageStatus | Literal['received', 'queued', 'sent', 'failed']"
OutcomeValue: TypeAlias = "Outcome | Literal['slept', 'ended', 'turn_limit', 'failed', 'stopped', 'timed_out', 'budget', 'interrupted']"
TurnKindValue: TypeAlias = "TurnKind | Literal['turn', 'summary']"
ChatRoleValue: TypeAlias = "ChatRole | Literal['system', 'user', 'assistant', 'tool']"
RunAnswerValue: TypeAlias = (
    "RunAnswer | Literal['started', 'queued', 'already_running', 'sleeping', 'paused', 'over_budget']"
)
StopReplyValue: TypeAlias = "StopReply | Literal['stopped', 'stopping', 'not_running']"
PromptOwnerValue: TypeAlias = "PromptOwner | Literal['agent', 'template']"
PhaseValue: TypeAlias = "Phase | Literal['asleep', 'holding', 'queued', 'backing_off', 'quarantined', 'paused', 'running', 'stopping', 'archived']"
BandPhaseValue: TypeAlias = "BandPhase | Literal['asleep', 'holding', 'queued', 'backing_off', 'quarantined', 'over_budget', 'held_by_limits', 'paused', 'running', 'stopping', 'archived', 'unknown']"
AgentSortValue: TypeAlias = (
    "AgentSort | Literal['-created_at', 'name', 'next_wake', '-cost_today', '-uncleared_high']"
)
AttentionKindValue: TypeAlias = "AttentionKind | Literal['paused', 'instance_paused', 'forgotten', 'quarantined', 'over_budget', 'failing', 'uncleared_high', 'approval', 'stopped_schedule', 'failing_webhook', 'failed_message', 'failed_run', 'failing_hook']"
AgendaKindValue: TypeAlias = (
    "AgendaKind | Literal['run_request', 'notification', 'hold', 'reminder', 'sleep', 'retry', 'schedule']"
)
AttentionActionValue: TypeAlias = "AttentionAction | Literal['send', 'dismiss']"
EventTypeValue: TypeAlias = "EventType | Literal['agent.created', 'agent.changed', 'agent.deleted', 'agent.asleep', 'agent.holding', 'agent.queued', 'agent.backing_off', 'agent.quarantined', 'agent.over_budget', 'agent.held_by_limits', 'agent.paused', 'agent.unpaused', 'agent.stopping', 'agent.stopped', 'agent.archived', 'agent.restored', 'agent.rescheduled', 'run.started', 'run.ended', 'notification.created', 'notification.changed', 'notification.cleared', 'notification.deleted', 'message.received', 'message.sent', 'message.failed', 'budget.reached', 'webhook.given_up', 'webhook.disabled', 'hook.ignored', 'hook.refused', 'schedule.created', 'schedule.changed', 'schedule.deleted', 'schedule.occurred', 'approval.requested', 'approval.reminded', 'approval.decided', 'approval.expired', 'approval.withdrawn', 'organization.paused', 'organization.unpaused', 'audit']"
AheadKindValue: TypeAlias = (
    "AheadKind | Literal['wake', 'retry', 'reminder', 'schedule', 'cap', 'budget_renewal']"
)
SpeakerValue: TypeAlias = "Speaker | Literal['system', 'user', 'assistant', 'tool']"
IfUnclearedValue: TypeAlias = "IfUncleared | Literal['merge', 'add']"
OnlyIfValue: TypeAlias = "OnlyIf | Literal['always', 'waiting']"
WakeIfValue: TypeAlias = "WakeIf | Literal['changed', 'nonempty', 'error']"
PausedReasonValue: TypeAlias = "PausedReason | Literal['', 'manual', 'agent_archived', 'timezone', 'ended']"
OccurrenceOutcomeValue: TypeAlias = "OccurrenceOutcome | Literal['fired', 'merged', 'late', 'paused', 'nothing_waiting', 'unchanged', 'failed', 'manual']"
CallStateValue: TypeAlias = "CallState | Literal['pending', 'due', 'calling', 'waiting', 'done', 'failed', 'denied', 'expired', 'withdrawn']"
CallKindValue: TypeAlias = "CallKind | Literal['approval', 'question', 'result', 'input']"
ProjectStatusValue: TypeAlias = "ProjectStatus | Literal['active', 'done', 'archived']"
SpanExpansionValue: TypeAlias = "SpanExpansion | Literal['metadata']"
ServiceStateValue: TypeAlias = "ServiceState | Literal['ready', 'draining', 'degraded']"
ScopeValue: TypeAlias = "Scope | Literal['service', 'node']"


class SignupBody(TypedDict, total=False):
    """A new user and a new organization."""

    email: Required[str]
    """The address to log in with, unique in the service, ignoring case. It is not verified."""
    password: Required[str]
    """8 to 128 characters."""
    organization_name: Required[str]
    """The name of the new organization; several may have the same."""
    name: str
    """The name of the person; "" if you do not say."""


class LoginBody(TypedDict, total=False):
    """The credentials of a user."""

    email: Required[str]
    """The address of the account, ignoring case."""
    password: Required[str]
    """The password of the account."""


class PasswordChangeBody(TypedDict, total=False):
    """The current password and a new one."""

    current_password: Required[str]
    """The password until now; a wrong one is refused with 400."""
    new_password: Required[str]
    """8 to 128 characters."""


class ResetBody(TypedDict, total=False):
    """A code that was sent or that an operator has given, and a new password."""

    email: Required[str]
    """The address of the account, ignoring case."""
    code: Required[str]
    """Sent by e-mail, or printed by `hostsvc accounts reset-password`. It works once, within an hour."""
    new_password: Required[str]
    """8 to 128 characters."""


class ResetRequestBody(TypedDict, total=False):
    """The address of somebody who has lost a password."""

    email: Required[str]
    """The address of the account, ignoring case."""


class NewOrganizationBody(TypedDict, total=False):
    """A further organization of the user who sends it."""

    name: Required[str]
    """The name of the organization; several may have the same."""


class OrganizationChangesBody(TypedDict, total=False):
    """The settings of an organization that its admins and owners can change."""

    name: str
    """The name of the organization; several may have the same."""
    paused: bool
    """Whether its agents are held: true stops their runs and starts no others until it is false again."""
    max_cost_usd_per_day: float | None
    """What all its agents together may spend in a UTC day, in US dollars with at most six decimals; null: no
    cap. 0 allows no run.
    """
    unpriced: UnpricedValue
    """Whether the cap allows calls of models whose price is not known.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """
    phone_region: str
    """The region of phone numbers without a country code, as two capital letters such as `AT`; "": such
    numbers are refused.
    """


class MembershipChangesBody(TypedDict, total=False):
    """The role is all that can be changed."""

    role: RoleValue
    """What the member may do. Nobody can change or grant a role above their own.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """


class NewInviteBody(TypedDict, total=False):
    """An invitation."""

    email: Required[str]
    """The address that is invited. If the service sends e-mail, it sends the link there."""
    role: RoleValue
    """The role that the person will have, not above your own.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """


class AcceptanceBody(TypedDict, total=False):
    """The code of the invite, and a password or else the token of the invited user."""

    code: Required[str]
    """The code from the answer to the invitation. It can be used once."""
    password: str
    """8 to 128 characters: that of the account if the invited address has one, else the password of the new
    account. Required unless the request has the token of that account.
    """
    name: str
    """The name of a new user; "" if you do not say. It does not rename an existing user."""


class NewApiKeyBody(TypedDict, total=False):
    """A new API key."""

    name: Required[str]
    """Any name, to tell keys apart."""
    is_active: bool
    """Whether the key is accepted; one that is switched off can be switched on again."""


class ApiKeyChangesBody(TypedDict, total=False):
    """The fields of an API key that can be changed; the key itself stays."""

    name: str
    """Any name, to tell keys apart."""
    is_active: bool
    """Whether the key is accepted; one that is switched off can be switched on again."""


class WebhookBody(TypedDict, total=False):
    """The writable fields of an event webhook."""

    url: Required[str]
    """Where the events go: an http or https URL of at most 500 characters. A change applies to later events
    only.
    """
    types: Required[Sequence[str]]
    """The types of events that it gets, such as `run.ended`; `run.*` for a family, `*` for all."""
    agent: str | None
    """Only events about this agent, and pauses of the organization; null: about all agents."""
    template: str | None
    """Only events about agents that have this template, and pauses of the organization; null: of any."""
    tag: str
    """Only events about agents that have this tag, and pauses of the organization; "": with any tags."""
    description: str
    """A text for people; "" if there is none."""
    is_active: bool
    """Whether it gets events. Switching it on forgets its failures; it gets the events from then on."""


class PatchedWebhookBody(TypedDict, total=False):
    """The writable fields of an event webhook."""

    url: str
    """Where the events go: an http or https URL of at most 500 characters. A change applies to later events
    only.
    """
    types: Sequence[str]
    """The types of events that it gets, such as `run.ended`; `run.*` for a family, `*` for all."""
    agent: str | None
    """Only events about this agent, and pauses of the organization; null: about all agents."""
    template: str | None
    """Only events about agents that have this template, and pauses of the organization; null: of any."""
    tag: str
    """Only events about agents that have this tag, and pauses of the organization; "": with any tags."""
    description: str
    """A text for people; "" if there is none."""
    is_active: bool
    """Whether it gets events. Switching it on forgets its failures; it gets the events from then on."""


class HookBody(TypedDict, total=False):
    """The writable fields of a hook."""

    name: Required[str]
    """Any name; also the title of a notification whose `title` turns out blank."""
    agent: str | None
    """The agent that gets the notifications; null: `template` says which one."""
    template: str | None
    """Each delivery creates an agent from this template, named after the title, which gets the notification;
    null: `agent` gets all.
    """
    verify: Required[VerificationValue]
    """How the sender proves that a delivery is its own.

    - `standard`: Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    - `github`: GitHub: `X-Hub-Signature-256`.
    - `stripe`: Stripe: `Stripe-Signature`.
    - `slack`: Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp`.
    - `hmac`: An HMAC of the body, as `header`, `algorithm`, `encoding` and `prefix` say.
    - `token`: The secret as the last part of the path, for senders that cannot sign.
    """
    header: str
    """The header with the signature, for `hmac`."""
    algorithm: AlgorithmValue
    """The hash function of the signature, for `hmac`."""
    encoding: EncodingValue
    """How the signature is written, for `hmac`."""
    prefix: str
    """What stands before the signature in its header, such as `sha256=`, for `hmac`."""
    title: Required[str]
    """The title of the notifications, in which `{{ pull_request.title }}` stands for a value in the payload,
    and `{{ commits.0.id }}` for one in a list; what is missing is blank.
    """
    body: str
    """The details of the notifications, with the same placeholders."""
    source: SourceValue
    """The source of the notifications.

    - `email`: An inbound e-mail.
    - `sms`: An inbound SMS.
    - `mms`: An inbound iMessage or RCS message.
    - `sms_provider_a`: An inbound SMS through a further provider.
    - `sms_provider_b`: An inbound SMS through another further provider.
    - `system`: An event of the service, such as the creation of a child agent or a reached spending cap.
    - `agent`: Created by the agent itself, such as a reminder.
    - `subagent`: A message from the agent's parent or one of its children.
    - `browser`: A browser task that is done, has failed or needs help.
    - `api`: Created over the API; the default.
    - `portal`: Created by a person in a web portal.
    """
    priority: PriorityValue
    """The priority of the notifications.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    only_if: Mapping[str, Any] | None
    """A JSON Schema: a delivery whose payload does not fit is ignored; null: none is."""
    secret: str
    """The secret that verifies deliveries, as the sender shows or takes it; without one the service makes it.
    The secret before a change stays valid for a day.
    """


class PatchedHookBody(TypedDict, total=False):
    """The writable fields of a hook."""

    name: str
    """Any name; also the title of a notification whose `title` turns out blank."""
    agent: str | None
    """The agent that gets the notifications; null: `template` says which one."""
    template: str | None
    """Each delivery creates an agent from this template, named after the title, which gets the notification;
    null: `agent` gets all.
    """
    verify: VerificationValue
    """How the sender proves that a delivery is its own.

    - `standard`: Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    - `github`: GitHub: `X-Hub-Signature-256`.
    - `stripe`: Stripe: `Stripe-Signature`.
    - `slack`: Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp`.
    - `hmac`: An HMAC of the body, as `header`, `algorithm`, `encoding` and `prefix` say.
    - `token`: The secret as the last part of the path, for senders that cannot sign.
    """
    header: str
    """The header with the signature, for `hmac`."""
    algorithm: AlgorithmValue
    """The hash function of the signature, for `hmac`."""
    encoding: EncodingValue
    """How the signature is written, for `hmac`."""
    prefix: str
    """What stands before the signature in its header, such as `sha256=`, for `hmac`."""
    title: str
    """The title of the notifications, in which `{{ pull_request.title }}` stands for a value in the payload,
    and `{{ commits.0.id }}` for one in a list; what is missing is blank.
    """
    body: str
    """The details of the notifications, with the same placeholders."""
    source: SourceValue
    """The source of the notifications.

    - `email`: An inbound e-mail.
    - `sms`: An inbound SMS.
    - `mms`: An inbound iMessage or RCS message.
    - `sms_provider_a`: An inbound SMS through a further provider.
    - `sms_provider_b`: An inbound SMS through another further provider.
    - `system`: An event of the service, such as the creation of a child agent or a reached spending cap.
    - `agent`: Created by the agent itself, such as a reminder.
    - `subagent`: A message from the agent's parent or one of its children.
    - `browser`: A browser task that is done, has failed or needs help.
    - `api`: Created over the API; the default.
    - `portal`: Created by a person in a web portal.
    """
    priority: PriorityValue
    """The priority of the notifications.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    only_if: Mapping[str, Any] | None
    """A JSON Schema: a delivery whose payload does not fit is ignored; null: none is."""
    secret: str
    """The secret that verifies deliveries, as the sender shows or takes it; without one the service makes it.
    The secret before a change stays valid for a day.
    """


class HookTestBody(TypedDict, total=False):
    """What to deliver for a test."""

    payload: Mapping[str, Any] | Sequence[Any] | str | float | bool
    """The payload, which may be any JSON value. It needs no signature."""


class SecretBody(TypedDict, total=False):
    """A new secret."""

    value: Required[str]
    """The secret itself, up to 64 KiB and unchanged; no answer contains it."""
    name: Required[str]
    """The name of an environment variable, unique in the organization or in the template. A secret of the
    template takes precedence over one of the organization with the same name.
    """


class SecretChangesBody(TypedDict, total=False):
    """The field of a secret that can be changed; the name stays."""

    value: str
    """The secret itself, up to 64 KiB and unchanged; no answer contains it."""


class TemplateBody(TypedDict, total=False):
    """The writable fields of a template."""

    name: Required[str]
    """Any name; several templates may have the same."""
    description: str
    """A text for people; "" if there is none."""
    system_prompt: str
    """Instructions to the model, for agents that have none of their own; "": none."""
    default_model: str
    """The model that is copied into a new agent that names none; "": each agent must name one."""
    default_reasoning_effort: ReasoningEffortValue
    """How much the model should think, for agents that do not say. `none` sends no effort to the model."""
    thinking_max_tokens: int
    """The maximum number of tokens for thinking, sent instead of the effort to models that know it; 0: no
    maximum is sent.
    """
    max_turns: int
    """How many turns a run may have, for agents that do not say; 0: `runs.max_turns` of the service."""
    debounce_window_seconds: int
    """How many seconds a conversation must pause before it wakes an agent that has no window of its own; 0: it
    wakes at once.
    """
    harness_git_ref: str
    """The branch, tag or commit whose code a process harness runs, for agents that do not say; "": the newest
    `main`.
    """
    agent_created_webhook_url: str
    """An http or https URL, which gets a signed POST request for each agent that is created from the template;
    "": none.
    """
    tool_call_secret: str | None
    """Signs webhooks and tool calls; "" leaves them unsigned. null is like leaving the field out, so that a
    member can send back what it has read.
    """
    max_cost_usd_per_day: float | None
    """What each agent without a cap of its own may spend in a UTC day, in US dollars with at most six
    decimals; null: no cap. 0 allows no run.
    """
    context_tokens: int
    """About how many tokens the first message of a run may have; 0: `runs.context_tokens` of the service."""
    carry_over: CarryOverValue
    """How much of its earlier runs an agent is told when it wakes.

    - `none`: Nothing but its core memory and the messages of the contacts concerned.
    - `journal`: The last entries of its journal, which the service writes at the end of each run; the
    default.
    - `transcript`: The conversation of its earlier runs with the model, which is compacted when it grows
    too long, and the journal of the last run.
    """
    reply: ReplyValue
    """How an agent answers the contact that woke it.

    - `tool`: By a tool such as `send_message`; the text of a final answer goes to nobody. The default.
    - `text`: By the text of its final answer, which the service sends to the contact that woke the agent.
    """
    content: Literal["full", "none", ""]
    """Whether traces keep what the model was told and answered, and streams show it live: `full` or `none`;
    "": `tracing.content` of the service.
    """
    content_days: int | None
    """How many days these texts are kept; null: `retention.tracing_content_days` of the service. 0: as long as
    their trace.
    """
    environment_secrets: Sequence[str]
    """The names of the secrets that a process harness gets as environment variables, at most 24. Each is a
    secret of the template, else of the organization; a run fails if there is no such secret.
    """
    unpriced: UnpricedValue
    """Whether the cap allows calls of models whose price is not known.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """
    may_create_contacts: bool
    """Whether agents may create contacts by their tools or change the addresses of contacts, and so write to
    people who have never written to them. It does not bind agents that they create from other templates.
    """
    temperature: float | None
    """How freely the model chooses its words, from 0 to 2; null: as the provider does. A model that refuses
    this field or one of the following is asked without it, and the span of the call says so.
    """
    max_output_tokens: int
    """How many tokens an answer may have, its reasoning included; 0: as many as the provider allows. A longer
    one is cut off, which fails the run.
    """
    tool_choice: ToolChoiceValue
    """Whether the model may or must call tools.

    - `auto`: As the model decides. The default.
    - `required`: The model must call a tool in each turn, so its runs end with `sleep`.
    - `none`: The model may call no tool. For templates whose `reply` is `text`.
    """
    response_format: Mapping[str, Any] | None
    """A JSON Schema (2020-12) of at most 16 KiB that the final answer of each run must fit, so that `output`
    of the run is JSON; null: it may be any text. The model may repair an answer once; if it still does not
    fit, the run fails.
    """
    may_create_agents: bool
    """Whether agents have the tool `create_agent`, which creates agents that work for them."""
    max_wakes_per_hour: int | None
    """How many runs of an agent may start in any 60 minutes, for agents that do not say; null: no limit."""
    max_wakes_per_day: int | None
    """The same for a day of the agent's time zone; null: no limit."""
    quiet_hours: str
    """When only run requests and urgent notifications start an agent that does not say, in its time zone, such
    as `Mon-Fri 22:00-07:00`; "": never.
    """
    approvers: RoleValue
    """The lowest role that may decide about calls of its agents that need an approval, and answer their
    questions; API keys act as admins. Only admins and owners change it.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """
    approval_hours: int | None
    """After how many hours such a call or question, if it is made from now on, expires without a decision;
    null: never. Only admins and owners change it.
    """


class PatchedTemplateBody(TypedDict, total=False):
    """The writable fields of a template."""

    name: str
    """Any name; several templates may have the same."""
    description: str
    """A text for people; "" if there is none."""
    system_prompt: str
    """Instructions to the model, for agents that have none of their own; "": none."""
    default_model: str
    """The model that is copied into a new agent that names none; "": each agent must name one."""
    default_reasoning_effort: ReasoningEffortValue
    """How much the model should think, for agents that do not say. `none` sends no effort to the model."""
    thinking_max_tokens: int
    """The maximum number of tokens for thinking, sent instead of the effort to models that know it; 0: no
    maximum is sent.
    """
    max_turns: int
    """How many turns a run may have, for agents that do not say; 0: `runs.max_turns` of the service."""
    debounce_window_seconds: int
    """How many seconds a conversation must pause before it wakes an agent that has no window of its own; 0: it
    wakes at once.
    """
    harness_git_ref: str
    """The branch, tag or commit whose code a process harness runs, for agents that do not say; "": the newest
    `main`.
    """
    agent_created_webhook_url: str
    """An http or https URL, which gets a signed POST request for each agent that is created from the template;
    "": none.
    """
    tool_call_secret: str | None
    """Signs webhooks and tool calls; "" leaves them unsigned. null is like leaving the field out, so that a
    member can send back what it has read.
    """
    max_cost_usd_per_day: float | None
    """What each agent without a cap of its own may spend in a UTC day, in US dollars with at most six
    decimals; null: no cap. 0 allows no run.
    """
    context_tokens: int
    """About how many tokens the first message of a run may have; 0: `runs.context_tokens` of the service."""
    carry_over: CarryOverValue
    """How much of its earlier runs an agent is told when it wakes.

    - `none`: Nothing but its core memory and the messages of the contacts concerned.
    - `journal`: The last entries of its journal, which the service writes at the end of each run; the
    default.
    - `transcript`: The conversation of its earlier runs with the model, which is compacted when it grows
    too long, and the journal of the last run.
    """
    reply: ReplyValue
    """How an agent answers the contact that woke it.

    - `tool`: By a tool such as `send_message`; the text of a final answer goes to nobody. The default.
    - `text`: By the text of its final answer, which the service sends to the contact that woke the agent.
    """
    content: Literal["full", "none", ""]
    """Whether traces keep what the model was told and answered, and streams show it live: `full` or `none`;
    "": `tracing.content` of the service.
    """
    content_days: int | None
    """How many days these texts are kept; null: `retention.tracing_content_days` of the service. 0: as long as
    their trace.
    """
    environment_secrets: Sequence[str]
    """The names of the secrets that a process harness gets as environment variables, at most 24. Each is a
    secret of the template, else of the organization; a run fails if there is no such secret.
    """
    unpriced: UnpricedValue
    """Whether the cap allows calls of models whose price is not known.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """
    may_create_contacts: bool
    """Whether agents may create contacts by their tools or change the addresses of contacts, and so write to
    people who have never written to them. It does not bind agents that they create from other templates.
    """
    temperature: float | None
    """How freely the model chooses its words, from 0 to 2; null: as the provider does. A model that refuses
    this field or one of the following is asked without it, and the span of the call says so.
    """
    max_output_tokens: int
    """How many tokens an answer may have, its reasoning included; 0: as many as the provider allows. A longer
    one is cut off, which fails the run.
    """
    tool_choice: ToolChoiceValue
    """Whether the model may or must call tools.

    - `auto`: As the model decides. The default.
    - `required`: The model must call a tool in each turn, so its runs end with `sleep`.
    - `none`: The model may call no tool. For templates whose `reply` is `text`.
    """
    response_format: Mapping[str, Any] | None
    """A JSON Schema (2020-12) of at most 16 KiB that the final answer of each run must fit, so that `output`
    of the run is JSON; null: it may be any text. The model may repair an answer once; if it still does not
    fit, the run fails.
    """
    may_create_agents: bool
    """Whether agents have the tool `create_agent`, which creates agents that work for them."""
    max_wakes_per_hour: int | None
    """How many runs of an agent may start in any 60 minutes, for agents that do not say; null: no limit."""
    max_wakes_per_day: int | None
    """The same for a day of the agent's time zone; null: no limit."""
    quiet_hours: str
    """When only run requests and urgent notifications start an agent that does not say, in its time zone, such
    as `Mon-Fri 22:00-07:00`; "": never.
    """
    approvers: RoleValue
    """The lowest role that may decide about calls of its agents that need an approval, and answer their
    questions; API keys act as admins. Only admins and owners change it.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """
    approval_hours: int | None
    """After how many hours such a call or question, if it is made from now on, expires without a decision;
    null: never. Only admins and owners change it.
    """


class AdapterBody(TypedDict, total=False):
    """The writable fields of an adapter."""

    name: Required[str]
    """Any name. If tools have the same name, models see some of them with the adapter's name in front."""
    description: str
    """A text for people; "" if there is none."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    config_schema: Mapping[str, Any]
    """The JSON Schema (2020-12) that the adapter's configs must fit, without references to other documents;
    {}: any config.
    """


class PatchedAdapterBody(TypedDict, total=False):
    """The writable fields of an adapter."""

    name: str
    """Any name. If tools have the same name, models see some of them with the adapter's name in front."""
    description: str
    """A text for people; "" if there is none."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    config_schema: Mapping[str, Any]
    """The JSON Schema (2020-12) that the adapter's configs must fit, without references to other documents;
    {}: any config.
    """


class AdapterConfigBody(TypedDict, total=False):
    """An adapter config. There is at most one for each template and adapter."""

    config: Mapping[str, Any] | Sequence[Any] | str | float | bool
    """A JSON value that fits the adapter's `config_schema`, such as an API key for it; null in the answer to a
    repeated request, and if it cannot be decrypted: then set it again.
    """
    secret_headers: Mapping[str, str]
    """Headers of each tool call, at most 20, such as `{"Authorization": "CRM_KEY"}`. The value of each is the
    secret of this name of the template, else of the organization; a call fails if there is none.
    """
    approval: ApprovalModeValue | Mapping[str, Any] | None
    """Which calls of the agents of the template wait until a person allows them, instead of what the tools
    say; null: as the tools say. Only admins and owners change it.
    """
    template: Required[str]
    """The template whose agents use this config."""
    adapter: Required[str]
    """The adapter that gets this config with each tool call."""


class AdapterConfigChangesBody(TypedDict, total=False):
    """The fields that can be changed; template and adapter stay."""

    config: Mapping[str, Any] | Sequence[Any] | str | float | bool
    """A JSON value that fits the adapter's `config_schema`, such as an API key for it; null in the answer to a
    repeated request, and if it cannot be decrypted: then set it again.
    """
    secret_headers: Mapping[str, str]
    """Headers of each tool call, at most 20, such as `{"Authorization": "CRM_KEY"}`. The value of each is the
    secret of this name of the template, else of the organization; a call fails if there is none.
    """
    approval: ApprovalModeValue | Mapping[str, Any] | None
    """Which calls of the agents of the template wait until a person allows them, instead of what the tools
    say; null: as the tools say. Only admins and owners change it.
    """


class McpServerBody(TypedDict, total=False):
    """The address of an MCP server, and the secrets that it wants."""

    url: Required[str]
    """The http or https URL of the server, which all its tools have."""
    headers: Mapping[str, str]
    """Headers with which the list of tools is read, at most 20, such as `{"Authorization": "CRM_KEY"}`, each
    with the name of a secret of the organization as its value. Calls have those of adapter configs.
    """


class ToolBody(TypedDict, total=False):
    """A new tool."""

    name: Required[str]
    """Unique in its adapter. Models see it with `_` for all but letters, digits, `_` and `-`."""
    description: str
    """What the tool does, as models read it; "" if there is none."""
    parameters: Any
    """A JSON Schema (2020-12) for objects, which calls must fit; any other value is only shown to models.
    null: no parameters are described.
    """
    url: str
    """The http or https URL to which calls are sent; "": calls fail with the code `no_url`."""
    handler: str
    """A text of yours that is sent with each call, so that one URL can serve many tools. `channel:<channel>`
    makes the tool deliver messages and hides it from models; `mcp:<name>` makes it that of an MCP server.
    """
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    idempotent: bool
    """Whether a repeated call with the same arguments does no harm. Checks of schedules need such a tool."""
    approval: ApprovalModeValue | Mapping[str, Any]
    """Which calls wait until a person allows them. Only admins and owners change it."""
    adapter: Required[str]
    """The adapter that the tool belongs to. Agents that have the adapter have the tool."""


class ToolChangesBody(TypedDict, total=False):
    """The fields of a tool that can be changed; its adapter stays."""

    name: str
    """Unique in its adapter. Models see it with `_` for all but letters, digits, `_` and `-`."""
    description: str
    """What the tool does, as models read it; "" if there is none."""
    parameters: Any
    """A JSON Schema (2020-12) for objects, which calls must fit; any other value is only shown to models.
    null: no parameters are described.
    """
    url: str
    """The http or https URL to which calls are sent; "": calls fail with the code `no_url`."""
    handler: str
    """A text of yours that is sent with each call, so that one URL can serve many tools. `channel:<channel>`
    makes the tool deliver messages and hides it from models; `mcp:<name>` makes it that of an MCP server.
    """
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    idempotent: bool
    """Whether a repeated call with the same arguments does no harm. Checks of schedules need such a tool."""
    approval: ApprovalModeValue | Mapping[str, Any]
    """Which calls wait until a person allows them. Only admins and owners change it."""


class AgentMatchBody(TypedDict, total=False):
    """The filters of a list of agents. Without any, all agents match that are not archived."""

    include_archived: bool
    """Whether archived agents are listed, too."""
    organization: str
    """Only agents of this organization, for users who belong to several."""
    purpose: PurposeValue
    """Only agents with this purpose.

    - `production`: It does real work; the default.
    - `eval`: It is being evaluated.
    - `dev`: It is being developed.
    """
    tag: Sequence[str]
    """Only agents with this tag; repeat it to ask for several, all of which an agent must have."""
    template: str
    """Only agents of this template."""
    status: AgentStatusValue
    """Only agents with this status; `archived` implies `include_archived`.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    parent: str
    """Only the children of this agent."""
    name: str
    """Only agents with exactly this name, ignoring case."""
    search: str
    """Only agents whose name contains this text, ignoring case."""
    phase: ShownPhaseValue
    """Only agents in this phase; `archived` implies `include_archived`.

    - `asleep`: It sleeps until something wakes it.
    - `holding`: A conversation has begun; the agent is woken when no further message comes for the debounce
    window.
    - `queued`: It is due to start and waits for a free run slot.
    - `backing_off`: It waits for a retry.
    - `quarantined`: It rests after too many failures in a row.
    - `over_budget`: Its budget of the day, or that of its organization, is spent.
    - `held_by_limits`: Something waits until it may wake again, or until its quiet hours end.
    - `paused`: It or its organization is paused; nothing starts.
    - `running`: A run is active.
    - `stopping`: Its run was asked to stop and has not ended yet.
    - `archived`: Nothing wakes it until it is restored.
    """


class ActOnAgentsBody(TypedDict, total=False):
    """An action, and the agents that it concerns: those with the given ids, or all that match."""

    action: Required[AgentActionValue]
    """What to do.

    - `pause`: Stop the run of each agent, and hold every start until `resume`.
    - `resume`: End the pause of each agent; whatever has fallen due wakes it.
    - `stop`: End the run of each agent, and cancel what is about to start one. It has no inverse.
    - `archive`: Archive each agent, so that nothing wakes it.
    - `restore`: Restore each agent that is archived; an active notification wakes it at once.
    - `clear`: Clear the active notifications of each agent: high, uncleared and due.
    - `unclear`: Put the given notifications back into the queues; one that is high becomes active now.
    - `tag`: Add tags to each agent.
    - `untag`: Take tags from each agent.
    """
    agents: Sequence[str]
    """The ids of the agents. Ids of agents that do not exist are among the `failures`."""
    match: AgentMatchBody
    """The filters that a list of agents has, as an object: the action concerns all agents that it shows."""
    tags: Sequence[str]
    """The tags to add or to take, for `tag` and `untag`."""
    notifications: Sequence[str]
    """The notifications to put back, for `unclear`, which takes no agents. Those that are not cleared, or are
    gone, stay as they are.
    """
    reason: str
    """Why the agents are stopped, for people, as in the stop of one agent."""
    dry_run: bool
    """Whether to change nothing, and only count the agents that match and those that would change, up to
    100,000.
    """
    after: str | None
    """The `next` of the answer before, to go on with the same body; null: begin."""


class AgentBody(TypedDict, total=False):
    """The writable fields of an agent.

    `paused`, `status` and `sleep_until` are owned by its supervisor: writing one is a message to it, and
    they are applied in this order. `run_started_at` and `last_wake_…` only runs change: a value for one of
    them is checked, but has no effect.
    """

    template: str | None
    """The template whose settings the agent takes where its own are blank; null: none."""
    parent: str | None
    """The agent that this one works for; null: none. Both can send messages to each other, and parents make no
    cycle.
    """
    adapters: Sequence[str]
    """The adapters whose tools the agent has. If tools have the same name, that of an earlier adapter keeps
    it.
    """
    tags: Sequence[str]
    """Labels of yours to filter by, in the order in which they were added."""
    name: Required[str]
    """Any name; several agents may have the same."""
    model: str
    """The model, as `<provider>/<name>`, without a provider at the default one. It may be left out if the
    template has a `default_model`, which is then copied.
    """
    timezone: str
    """An IANA time zone, in which the agent is told the time, and in which a datetime without an offset is
    read.
    """
    system_prompt: str
    """Instructions to the model; "": those of the template."""
    email_alias: str | None
    """The local part of the agent's e-mail address, unique in the whole service, ignoring case; null: none.
    The service only stores it.
    """
    max_turns: int
    """How many turns a run may have. 0: the template's limit, else `runs.max_turns`; a negative number: no
    limit.
    """
    max_sleep_hours: int | None
    """The maximum length of a sleep in hours, counted from the start of the run; null: no limit. A change
    applies from the next run on.
    """
    harness_git_ref: str | None
    """The branch, tag or commit whose code a process harness runs; null or "": that of the template, else the
    newest `main`.
    """
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", ""]
    """How much the model should think; "": the effort of the template. `none` sends no effort to the model.
    """
    debounce_window_seconds: int | None
    """How many seconds a conversation must pause before it wakes the agent. 0: it wakes at once; null: the
    template's window.
    """
    call_voice_id: str
    """Only stored; it has no effect."""
    purpose: PurposeValue
    """A label to filter by; it has no other effect.

    - `production`: It does real work; the default.
    - `eval`: It is being evaluated.
    - `dev`: It is being developed.
    """
    max_cost_usd_per_day: float | None
    """What the agent may spend in a UTC day, in US dollars with at most six decimals; null: as much as the
    template allows. 0 allows no run.
    """
    max_wakes_per_hour: int | None
    """How many runs may start in any 60 minutes; null: as many as the template allows. Only run requests and
    urgent notifications start more, and count, too; what else would start one waits.
    """
    max_wakes_per_day: int | None
    """The same for a day of the agent's time zone; null: as many as the template allows."""
    quiet_hours: str | None
    """When only run requests and urgent notifications start the agent, in its time zone: `22:00-07:00`, or
    with days on which it begins `Mon-Fri 22:00-07:00`, several with `, ` between them; "": never; null: the
    template says.
    """
    language: str
    """The language whose word stems searches find, in documents that are written from then on; "": words are
    found only as they are written.
    """
    unpriced: UnpricedValue | None
    """Whether the agent's cap allows calls of models whose price is not known; null: the template says.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """
    paused: bool
    """A message to the supervisor: true stops the agent's run and holds every start, false lets what has
    fallen due start it.
    """
    status: AgentStatusValue
    """A message to the supervisor: `running` requests a run, `sleeping` stops a run or restores an archived
    agent, `archived` archives it. The answer shows `running` only if a run has started.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    sleep_until: dt.datetime | str | None
    """A message to the supervisor: when to wake, at the latest when `max_sleep_hours` allows, as with null; a
    time in the past wakes the agent now. During a run it applies if the run ends without asking for sleep.
    """
    run_started_at: dt.datetime | str | None
    """A datetime or null, without effect: only a run has a start, and the answer shows that of the active one.
    """
    last_wake_reason: str
    """Checked, but without effect: the answer shows why the last run started."""
    last_wake_interrupted_sleep_until: dt.datetime | str | None
    """A datetime or null, without effect: the answer shows which sleep the start of the last run cut short.
    """


class PatchedAgentBody(TypedDict, total=False):
    """The writable fields of an agent.

    `paused`, `status` and `sleep_until` are owned by its supervisor: writing one is a message to it, and
    they are applied in this order. `run_started_at` and `last_wake_…` only runs change: a value for one of
    them is checked, but has no effect.
    """

    template: str | None
    """The template whose settings the agent takes where its own are blank; null: none."""
    parent: str | None
    """The agent that this one works for; null: none. Both can send messages to each other, and parents make no
    cycle.
    """
    adapters: Sequence[str]
    """The adapters whose tools the agent has. If tools have the same name, that of an earlier adapter keeps
    it.
    """
    tags: Sequence[str]
    """Labels of yours to filter by, in the order in which they were added."""
    name: str
    """Any name; several agents may have the same."""
    model: str
    """The model, as `<provider>/<name>`, without a provider at the default one. It may be left out if the
    template has a `default_model`, which is then copied.
    """
    timezone: str
    """An IANA time zone, in which the agent is told the time, and in which a datetime without an offset is
    read.
    """
    system_prompt: str
    """Instructions to the model; "": those of the template."""
    email_alias: str | None
    """The local part of the agent's e-mail address, unique in the whole service, ignoring case; null: none.
    The service only stores it.
    """
    max_turns: int
    """How many turns a run may have. 0: the template's limit, else `runs.max_turns`; a negative number: no
    limit.
    """
    max_sleep_hours: int | None
    """The maximum length of a sleep in hours, counted from the start of the run; null: no limit. A change
    applies from the next run on.
    """
    harness_git_ref: str | None
    """The branch, tag or commit whose code a process harness runs; null or "": that of the template, else the
    newest `main`.
    """
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", ""]
    """How much the model should think; "": the effort of the template. `none` sends no effort to the model.
    """
    debounce_window_seconds: int | None
    """How many seconds a conversation must pause before it wakes the agent. 0: it wakes at once; null: the
    template's window.
    """
    call_voice_id: str
    """Only stored; it has no effect."""
    purpose: PurposeValue
    """A label to filter by; it has no other effect.

    - `production`: It does real work; the default.
    - `eval`: It is being evaluated.
    - `dev`: It is being developed.
    """
    max_cost_usd_per_day: float | None
    """What the agent may spend in a UTC day, in US dollars with at most six decimals; null: as much as the
    template allows. 0 allows no run.
    """
    max_wakes_per_hour: int | None
    """How many runs may start in any 60 minutes; null: as many as the template allows. Only run requests and
    urgent notifications start more, and count, too; what else would start one waits.
    """
    max_wakes_per_day: int | None
    """The same for a day of the agent's time zone; null: as many as the template allows."""
    quiet_hours: str | None
    """When only run requests and urgent notifications start the agent, in its time zone: `22:00-07:00`, or
    with days on which it begins `Mon-Fri 22:00-07:00`, several with `, ` between them; "": never; null: the
    template says.
    """
    language: str
    """The language whose word stems searches find, in documents that are written from then on; "": words are
    found only as they are written.
    """
    unpriced: UnpricedValue | None
    """Whether the agent's cap allows calls of models whose price is not known; null: the template says.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """
    paused: bool
    """A message to the supervisor: true stops the agent's run and holds every start, false lets what has
    fallen due start it.
    """
    status: AgentStatusValue
    """A message to the supervisor: `running` requests a run, `sleeping` stops a run or restores an archived
    agent, `archived` archives it. The answer shows `running` only if a run has started.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    sleep_until: dt.datetime | str | None
    """A message to the supervisor: when to wake, at the latest when `max_sleep_hours` allows, as with null; a
    time in the past wakes the agent now. During a run it applies if the run ends without asking for sleep.
    """
    run_started_at: dt.datetime | str | None
    """A datetime or null, without effect: only a run has a start, and the answer shows that of the active one.
    """
    last_wake_reason: str
    """Checked, but without effect: the answer shows why the last run started."""
    last_wake_interrupted_sleep_until: dt.datetime | str | None
    """A datetime or null, without effect: the answer shows which sleep the start of the last run cut short.
    """


class TagsBody(TypedDict, total=False):
    """Tags to add or to remove."""

    tags: Required[Sequence[str]]
    """Tags that the agent already has, or has not, do no harm."""


class ToolCallBody(TypedDict, total=False):
    """The parameters, by name, as the tool's definition says."""


class RunBody(TypedDict, total=False):
    """How to start a run. All fields may be left out."""

    wakeup: bool
    """true interrupts a sleep, a wait for messages or a backoff; false leaves an agent asleep whose
    `sleep_until` lies ahead.
    """


class StopBody(TypedDict, total=False):
    """How to stop. All fields may be left out."""

    force: bool
    """true cancels the run at once, without the time that it otherwise has to end by itself."""
    reason: str
    """Why it is stopped, for people. The run and its trace keep it, and `why` quotes it; "": no reason."""


class ActOnAttentionBody(TypedDict, total=False):
    """An action, and what it concerns: the given items of a kind, or all of them that need a person."""

    action: Required[AttentionActionValue]
    """What to do.

    - `send`: Send the message or the delivery again, under its own id.
    - `dismiss`: Show it no longer among what needs a person. A message that fails again is shown again.
    """
    kind: Required[Literal["failed_message", "failed_run", "failing_hook"]]
    """What it concerns; runs can only be dismissed."""
    ids: Sequence[str]
    """The ids of messages, runs or deliveries, as the items of the overview name them. Left out: all of the
    kind that need a person.
    """
    organization: str
    """Of all, only those of this organization; not for `ids`."""
    after: str
    """Of all, only those behind this one, the `next` of the answer before; not for `ids`."""


class PreviewEventBody(TypedDict, total=False):
    """Notifications that might come. None is created."""

    source: SourceValue
    """Where they come from.

    - `email`: An inbound e-mail.
    - `sms`: An inbound SMS.
    - `mms`: An inbound iMessage or RCS message.
    - `sms_provider_a`: An inbound SMS through a further provider.
    - `sms_provider_b`: An inbound SMS through another further provider.
    - `system`: An event of the service, such as the creation of a child agent or a reached spending cap.
    - `agent`: Created by the agent itself, such as a reminder.
    - `subagent`: A message from the agent's parent or one of its children.
    - `browser`: A browser task that is done, has failed or needs help.
    - `api`: Created over the API; the default.
    - `portal`: Created by a person in a web portal.
    """
    priority: PriorityValue
    """Their priority; left out: `high`.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    scheduled_for: dt.datetime | str | None
    """When they would become active, in the agent's time zone if it has no offset; null or a time before they
    come: at once.
    """
    count: int
    """How many come one after the other."""
    seconds_apart: int
    """How many seconds after the one before it each of them comes."""
    urgent: bool
    """Whether they wake the agent in spite of its limits."""


class PreviewPatchBody(TypedDict, total=False):
    """The fields of an agent that might be changed. Only these have an effect on when the agent wakes."""

    template: str | None
    """Another template, whose debounce window, cap and limits count where the agent has none of its own; null:
    none.
    """
    debounce_window_seconds: int | None
    """Another debounce window; null: the template's."""
    max_sleep_hours: int | None
    """Another maximum length of a sleep; null: no limit."""
    max_cost_usd_per_day: float | None
    """Another cap; null: the template's."""
    max_wakes_per_hour: int | None
    """Another limit of wakes in 60 minutes; null: the template's."""
    max_wakes_per_day: int | None
    """Another limit of wakes in a day; null: the template's."""
    quiet_hours: str | None
    """Other quiet hours; null: the template's."""
    paused: bool
    """A pause of the agent, or its end."""
    status: AgentStatusValue
    """A run request (`running`), a stop or restore (`sleeping`), or an archive (`archived`).

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    sleep_until: dt.datetime | str | None
    """Another end of its sleep, in the agent's time zone if it has no offset; null: as late as it may be."""


class WantedBody(TypedDict, total=False):
    """What should have happened."""

    woken_by: Required[str]
    """A notification that should have woken the agent."""


class PreviewBody(TypedDict, total=False):
    """A question about the future of an agent. Its parts may be combined."""

    event: PreviewEventBody | None
    """Notifications that might come, at `at`; null: none."""
    patch: PreviewPatchBody | None
    """A change that might be made now; null: none."""
    wanted: WantedBody | None
    """What should have happened by `as_of`: the answer names the least change for it; null: nothing."""
    as_of: dt.datetime | str | None
    """With `wanted`, a moment in the past, in the agent's time zone if it has no offset; null: now."""
    at: dt.datetime | str | None
    """A moment at most 31 days ahead, in the agent's time zone if it has no offset; null: now."""


class PriorityRuleBody(TypedDict, total=False):
    """Another priority for all that comes from a source."""

    source: Required[SourceValue]
    """The source.

    - `email`: An inbound e-mail.
    - `sms`: An inbound SMS.
    - `mms`: An inbound iMessage or RCS message.
    - `sms_provider_a`: An inbound SMS through a further provider.
    - `sms_provider_b`: An inbound SMS through another further provider.
    - `system`: An event of the service, such as the creation of a child agent or a reached spending cap.
    - `agent`: Created by the agent itself, such as a reminder.
    - `subagent`: A message from the agent's parent or one of its children.
    - `browser`: A browser task that is done, has failed or needs help.
    - `api`: Created over the API; the default.
    - `portal`: Created by a person in a web portal.
    """
    priority: PriorityValue
    """The priority that its notifications would have had when they came; left out: `low`.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """


class ScheduleChangeBody(TypedDict, total=False):
    """A schedule of the agent that would have been paused, or have had another expression."""

    id: Required[str]
    """The id of the schedule."""
    paused: bool
    """Whether it would have been paused."""
    cron: str | None
    """Another cron expression, by which it would have notified each time; null: its own times."""


class RewindPatchBody(TypedDict, total=False):
    """The settings that the agent would have had."""

    template: str | None
    """Another template, whose debounce window, cap and limits count where the agent has none of its own; null:
    none.
    """
    debounce_window_seconds: int | None
    """Another debounce window; null: the template's."""
    max_sleep_hours: int | None
    """Another maximum length of a sleep; null: no limit."""
    max_cost_usd_per_day: float | None
    """Another cap; null: the template's."""
    max_wakes_per_hour: int | None
    """Another limit of wakes in 60 minutes; null: the template's."""
    max_wakes_per_day: int | None
    """Another limit of wakes in a day; null: the template's."""
    quiet_hours: str | None
    """Other quiet hours; null: the template's."""
    priorities: Sequence[PriorityRuleBody]
    """Other priorities, by source."""
    schedules: Sequence[ScheduleChangeBody]
    """Other times of its schedules."""


class RewindBody(TypedDict, total=False):
    """A period of an agent, and the settings that it would have had in it."""

    agent: Required[str]
    """The agent."""
    from_: Required[dt.datetime | str]
    """The start of the period, in the agent's time zone if it has no offset."""
    to: Required[dt.datetime | str]
    """The end of the period, at most 31 days later; it has passed."""
    patch: Required[RewindPatchBody]
    """The settings; without any it shows how much of the period follows from those of today."""


class NewUsageBody(TypedDict, total=False):
    """One call of a model."""

    model: Required[str]
    """The name of the model, such as `openai/gpt-5`."""
    input_tokens: Required[int]
    """Tokens sent to the model, those from a cache included."""
    output_tokens: Required[int]
    """Tokens that the model produced."""
    cached_tokens: int
    """How many of the input tokens came from a cache, at most `input_tokens`."""
    cost_usd: float | None
    """The cost in US dollars, with at most six decimals; null or left out: by the prices of the service."""
    trace: str | None
    """The trace of the call, of the same agent; null or left out: none, or that of the run whose token is
    used.
    """
    occurred_at: dt.datetime | str | None
    """When the call was made, which decides the day that it counts for; null or left out: now."""


class NewNotificationBody(TypedDict, total=False):
    """A new notification."""

    agent: Required[str]
    """The agent in whose queue it is."""
    title: Required[str]
    """One line that tells the agent what it is about."""
    body: str
    """The details, such as the text of a message; "" if there are none."""
    source: SourceValue
    """Where it comes from, which also decides whether it wakes at once or after the debounce window.

    - `email`: An inbound e-mail.
    - `sms`: An inbound SMS.
    - `mms`: An inbound iMessage or RCS message.
    - `sms_provider_a`: An inbound SMS through a further provider.
    - `sms_provider_b`: An inbound SMS through another further provider.
    - `system`: An event of the service, such as the creation of a child agent or a reached spending cap.
    - `agent`: Created by the agent itself, such as a reminder.
    - `subagent`: A message from the agent's parent or one of its children.
    - `browser`: A browser task that is done, has failed or needs help.
    - `api`: Created over the API; the default.
    - `portal`: Created by a person in a web portal.
    """
    source_id: str
    """An id in the source, such as the id of the contact who wrote; "" if there is none."""
    priority: PriorityValue
    """Whether it wakes the agent and keeps it from sleeping until it is cleared.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    scheduled_for: dt.datetime | str | None
    """When it becomes active: until then the agent's own tool does not list it, and at that time a high one
    wakes the agent. null or a time in the past: at once.
    """
    urgent: bool
    """Whether it wakes the agent in its quiet hours, too, and when it has woken as often as it may. Only
    people and keys create such notifications, all of them high.
    """


class NotificationChangesBody(TypedDict, total=False):
    """The fields to change. If the notification becomes active by it, it wakes the agent like a new one."""

    title: str
    """One line that tells the agent what it is about."""
    body: str
    """The details, such as the text of a message; "" if there are none."""
    priority: PriorityValue
    """Whether it wakes the agent and keeps it from sleeping until it is cleared.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    scheduled_for: dt.datetime | str | None
    """When it becomes active: until then the agent's own tool does not list it, and at that time a high one
    wakes the agent. null or a time in the past: at once.
    """
    cleared: bool
    """true clears the notification; false puts it back into the queue, and sets `cleared_at` to null."""


class ClearBody(TypedDict, total=False):
    """Which of an agent's notifications to clear."""

    agent: Required[str]
    """The agent whose notifications are cleared."""
    ids: Sequence[str]
    """The notifications to clear, all of this agent. Left out: all but those scheduled for later; an empty
    list: none.
    """


class CheckBody(TypedDict, total=False):
    """A call of a tool that decides whether a schedule notifies."""

    tool: Required[str]
    """The name by which the agent calls the tool, which must be `idempotent`."""
    arguments: Mapping[str, Any]
    """The arguments of the call, at most 10,000 bytes of JSON."""
    wake_if: WakeIfValue
    """The answer that notifies.

    - `changed`: One that differs from the last. The first only begins the comparison.
    - `nonempty`: One that differs from the last and is neither null nor an empty text, list or object.
    - `error`: The first error after the start or after an answer.
    """


class NewScheduleBody(TypedDict, total=False):
    """A new schedule."""

    title: Required[str]
    """The title of the notifications."""
    body: str
    """Their body, at most 10,000 characters. What was late, missed or merged stands in a line above it."""
    priority: PriorityValue
    """Whether the notifications wake the agent. A low one is a note for its next wake.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    cron: str | None
    """A cron expression: minute, hour, day of month, month, day of week. null: `every_seconds` counts."""
    every_seconds: int | None
    """Real seconds from `starts_at`, or from the creation; null: `cron` counts."""
    timezone: str | None
    """The IANA time zone of `cron`; null: that of the agent, also when that changes."""
    starts_at: dt.datetime | str | None
    """It does not occur before; null: from the creation on. Without an offset it is in the agent's zone."""
    ends_at: dt.datetime | str | None
    """It does not occur after; null: it has no end. Without an offset it is in the agent's zone."""
    max_occurrences: int | None
    """How often it notifies in all, without those on request; null: without end."""
    late_seconds: int | None
    """An occurrence that is later than this and a minute is dropped, with a record. null: it notifies however
    late.
    """
    if_uncleared: IfUnclearedValue
    """What happens when its last notification still waits.

    - `merge`: That notification is updated: how many occurrences it stands for, and the latest of them.
    - `add`: Another one is added.
    """
    only_if: OnlyIfValue
    """The condition on which it notifies.

    - `always`: It always does.
    - `waiting`: Only if another uncleared notification of the agent waits, whatever its priority.
    """
    jitter_seconds: int
    """It occurs up to this much later than planned, always by the same time, so that many do not coincide.
    """
    check: CheckBody | None
    """A tool that is called each time, without a model; only its answer decides whether it notifies, until
    `ends_at`, at most 30 days ahead. null: there is no check.
    """
    paused: bool
    """Whether its occurrences pass without a notification."""
    agent: Required[str]
    """The agent that it notifies."""
    name: str
    """Its name, unique for the agent. Left out: the beginning of the title."""


class PutScheduleBody(TypedDict, total=False):
    """The settings of a schedule whose agent and name are known."""

    title: Required[str]
    """The title of the notifications."""
    body: str
    """Their body, at most 10,000 characters. What was late, missed or merged stands in a line above it."""
    priority: PriorityValue
    """Whether the notifications wake the agent. A low one is a note for its next wake.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    cron: str | None
    """A cron expression: minute, hour, day of month, month, day of week. null: `every_seconds` counts."""
    every_seconds: int | None
    """Real seconds from `starts_at`, or from the creation; null: `cron` counts."""
    timezone: str | None
    """The IANA time zone of `cron`; null: that of the agent, also when that changes."""
    starts_at: dt.datetime | str | None
    """It does not occur before; null: from the creation on. Without an offset it is in the agent's zone."""
    ends_at: dt.datetime | str | None
    """It does not occur after; null: it has no end. Without an offset it is in the agent's zone."""
    max_occurrences: int | None
    """How often it notifies in all, without those on request; null: without end."""
    late_seconds: int | None
    """An occurrence that is later than this and a minute is dropped, with a record. null: it notifies however
    late.
    """
    if_uncleared: IfUnclearedValue
    """What happens when its last notification still waits.

    - `merge`: That notification is updated: how many occurrences it stands for, and the latest of them.
    - `add`: Another one is added.
    """
    only_if: OnlyIfValue
    """The condition on which it notifies.

    - `always`: It always does.
    - `waiting`: Only if another uncleared notification of the agent waits, whatever its priority.
    """
    jitter_seconds: int
    """It occurs up to this much later than planned, always by the same time, so that many do not coincide.
    """
    check: CheckBody | None
    """A tool that is called each time, without a model; only its answer decides whether it notifies, until
    `ends_at`, at most 30 days ahead. null: there is no check.
    """
    paused: bool
    """Whether its occurrences pass without a notification."""


class SchedulePreviewBody(TypedDict, total=False):
    """When to occur, and in which time zone."""

    cron: Required[str]
    """A cron expression: minute, hour, day of month, month, day of week."""
    timezone: str
    """An IANA name."""
    n: int
    """How many moments to show."""


class ScheduleChangesBody(TypedDict, total=False):
    """The fields to change; `cron` takes the place of `every_seconds`, and the other way round."""

    title: str
    """The title of the notifications."""
    body: str
    """Their body, at most 10,000 characters. What was late, missed or merged stands in a line above it."""
    priority: PriorityValue
    """Whether the notifications wake the agent. A low one is a note for its next wake.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    cron: str | None
    """A cron expression: minute, hour, day of month, month, day of week. null: `every_seconds` counts."""
    every_seconds: int | None
    """Real seconds from `starts_at`, or from the creation; null: `cron` counts."""
    timezone: str | None
    """The IANA time zone of `cron`; null: that of the agent, also when that changes."""
    starts_at: dt.datetime | str | None
    """It does not occur before; null: from the creation on. Without an offset it is in the agent's zone."""
    ends_at: dt.datetime | str | None
    """It does not occur after; null: it has no end. Without an offset it is in the agent's zone."""
    max_occurrences: int | None
    """How often it notifies in all, without those on request; null: without end."""
    late_seconds: int | None
    """An occurrence that is later than this and a minute is dropped, with a record. null: it notifies however
    late.
    """
    if_uncleared: IfUnclearedValue
    """What happens when its last notification still waits.

    - `merge`: That notification is updated: how many occurrences it stands for, and the latest of them.
    - `add`: Another one is added.
    """
    only_if: OnlyIfValue
    """The condition on which it notifies.

    - `always`: It always does.
    - `waiting`: Only if another uncleared notification of the agent waits, whatever its priority.
    """
    jitter_seconds: int
    """It occurs up to this much later than planned, always by the same time, so that many do not coincide.
    """
    check: CheckBody | None
    """A tool that is called each time, without a model; only its answer decides whether it notifies, until
    `ends_at`, at most 30 days ahead. null: there is no check.
    """
    paused: bool
    """Whether its occurrences pass without a notification."""
    name: str
    """Its name, unique for the agent."""


class GrantBody(TypedDict, total=False):
    """Later calls of this tool by this agent that need no decision."""

    arguments: Required[Literal["exact"] | Mapping[str, Any]]
    """`"exact"`: those with exactly the approved arguments. Or a JSON Schema (2020-12) that their arguments
    must fit; {} covers every call.
    """
    until: dt.datetime | str | None
    """When it ends; null: at no time. Without an offset it is UTC."""
    max_uses: int | None
    """After how many calls it ends; null: after none."""


class DecisionBody(TypedDict, total=False):
    """What a person decides."""

    approve: bool | None
    """Whether the call may be made. null or left out is for questions, whose `answer` counts; false declines
    to answer.
    """
    note: str
    """A text of the person who decided, which the agent reads."""
    arguments: Mapping[str, Any]
    """The arguments to call the tool with, in place of those that the agent gave."""
    answer: Any
    """The answer to a question, which must fit its `answer_schema`."""
    grant: GrantBody | None
    """Which further calls need no decision; null: none do."""


class ContactBody(TypedDict, total=False):
    """The writable fields of a contact."""

    agent: str | None
    """The agent that the contact is for; null: all agents of the organization."""
    name: str
    """Shown in the title of the notification about a message; "" if it is not known."""
    email: str
    """An e-mail address, which no other contact of the organization has; "" if there is none."""
    phone: str
    """In any notation with + and the country code, or in that of the organization's `phone_region`; also a
    short code of three to six digits.
    """
    metadata: Mapping[str, Any] | Sequence[Any] | str | float | bool
    """Any JSON value of yours but null; the service only stores it."""
    other_addresses: Sequence[str]
    """Phone numbers in the notations of `phone`, e-mail addresses, and names that carriers show."""


class PatchedContactBody(TypedDict, total=False):
    """The writable fields of a contact."""

    agent: str | None
    """The agent that the contact is for; null: all agents of the organization."""
    name: str
    """Shown in the title of the notification about a message; "" if it is not known."""
    email: str
    """An e-mail address, which no other contact of the organization has; "" if there is none."""
    phone: str
    """In any notation with + and the country code, or in that of the organization's `phone_region`; also a
    short code of three to six digits.
    """
    metadata: Mapping[str, Any] | Sequence[Any] | str | float | bool
    """Any JSON value of yours but null; the service only stores it."""
    other_addresses: Sequence[str]
    """Phone numbers in the notations of `phone`, e-mail addresses, and names that carriers show."""


class AttachmentBody(TypedDict, total=False):
    """A file elsewhere that belongs to a message; it stays where it is."""

    name: str
    """The file name; "" if it is not known."""
    content_type: str
    """A media type such as `image/png`; "" if it is not known."""
    url: Required[str]
    """The http or https address of the file, which the agent's tool `open_sms_attachment` shows."""


class NewMessageBody(TypedDict, total=False):
    """A new message."""

    agent: Required[str]
    """The agent that wrote the message or gets it."""
    contact: str | None
    """The contact at the other end; null if it is not known or was deleted."""
    from_: str | None
    """The sender of an inbound message, whose contact is found or created: a phone number, a short code, a
    name that carriers show, or an e-mail address. "" or `anonymous`: it is withheld; null: see `contact`.
    """
    channel: Required[ChannelValue]
    """The way that the message travels, and the source of an inbound message's notification.

    - `email`: E-mail.
    - `sms`: SMS.
    - `mms`: iMessage or RCS.
    - `sms_provider_a`: SMS through a further provider.
    - `sms_provider_b`: SMS through another further provider.
    """
    direction: Required[DirectionValue]
    """Whether the agent gets the message or wrote it.

    - `inbound`: From a contact to the agent.
    - `outbound`: From the agent to a contact.
    """
    subject: str
    """One line, for channels that have subjects; else ""."""
    body: str
    """The text; "" if there are only attachments."""
    attachments: Sequence[AttachmentBody]
    """Files that belong to the message: those that were uploaded with it, then those elsewhere."""
    status: MessageStatusValue | None
    """Left out or null: `received` if it is inbound, `queued` if it is outbound.

    - `received`: An inbound message; its default.
    - `queued`: An outbound message that is not yet known to be sent; its default.
    - `sent`: An outbound message that was handed to its channel.
    - `failed`: An outbound message that was not sent, also because no tool of the agent serves its channel.
    """


class AttachmentChangesBody(TypedDict, total=False):
    """A file of a message; uploaded files stay, whether they are in the list or not."""

    name: str
    """The file name; "" if it is not known."""
    content_type: str
    """A media type such as `image/png`; "" if it is not known."""
    url: Required[str]
    """The http or https address of a file elsewhere, or the path of an uploaded file of this message."""


class MessageChangesBody(TypedDict, total=False):
    """The fields to change; agent, channel and direction stay."""

    contact: str | None
    """The contact at the other end; null if it is not known or was deleted."""
    subject: str
    """One line, for channels that have subjects; else ""."""
    body: str
    """The text; "" if there are only attachments."""
    attachments: Sequence[AttachmentChangesBody]
    """Files that belong to the message: those that were uploaded with it, then those elsewhere."""
    status: MessageStatusValue
    """How far the message has come; the tool of its channel may set it.

    - `received`: An inbound message; its default.
    - `queued`: An outbound message that is not yet known to be sent; its default.
    - `sent`: An outbound message that was handed to its channel.
    - `failed`: An outbound message that was not sent, also because no tool of the agent serves its channel.
    """


class DocumentBody(TypedDict, total=False):
    """The writable fields of a document."""

    agent: str | None
    """The agent that the document is for; null: all agents of the organization."""
    project: str | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: Required[str]
    """One line; several documents may have the same."""
    content: str
    """The text; "" for an empty document. Title and content of each version count against
    `limits.document_bytes`.
    """
    content_type: str
    """The media type of the content, which the service only stores."""
    path: str | None
    """Where the agent's tool `memory` finds the document, such as `/memories/people/ada.md`; null: nowhere. It
    needs an `agent`, which may have one document at each path.
    """


class PatchedDocumentBody(TypedDict, total=False):
    """The writable fields of a document."""

    agent: str | None
    """The agent that the document is for; null: all agents of the organization."""
    project: str | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: str
    """One line; several documents may have the same."""
    content: str
    """The text; "" for an empty document. Title and content of each version count against
    `limits.document_bytes`.
    """
    content_type: str
    """The media type of the content, which the service only stores."""
    path: str | None
    """Where the agent's tool `memory` finds the document, such as `/memories/people/ada.md`; null: nowhere. It
    needs an `agent`, which may have one document at each path.
    """


class ProjectBody(TypedDict, total=False):
    """The writable fields of a project."""

    agent: str | None
    """The agent that the project is for; null: all agents of the organization."""
    name: Required[str]
    """One line; several projects may have the same."""
    description: str
    """Any text; "" if there is none."""
    status: ProjectStatusValue
    """The progress of the work. It has no effect on agents.

    - `active`: Work goes on; the default.
    - `done`: The work is done.
    - `archived`: Kept for reference.
    """


class PatchedProjectBody(TypedDict, total=False):
    """The writable fields of a project."""

    agent: str | None
    """The agent that the project is for; null: all agents of the organization."""
    name: str
    """One line; several projects may have the same."""
    description: str
    """Any text; "" if there is none."""
    status: ProjectStatusValue
    """The progress of the work. It has no effect on agents.

    - `active`: Work goes on; the default.
    - `done`: The work is done.
    - `archived`: Kept for reference.
    """


class NewTraceBody(TypedDict, total=False):
    """A trace of something that the service does not run itself."""

    id: str
    """An id of yours that no trace has; left out: chosen by the service."""
    agent: Required[str]
    """The agent that the trace is about, which may have been deleted."""
    name: Required[str]
    """What was done; `invoke_agent <name>` for a run of the service."""
    started_at: dt.datetime | str | None
    """When it started; null or left out: now."""
    metadata: Any
    """Any JSON value of yours."""


class TraceEndBody(TypedDict, total=False):
    """How a trace ended. A repetition keeps the first `ended_at` and replaces the rest."""

    ended_at: dt.datetime | str | None
    """When it ended, not before its start; null or left out: now."""
    error: str
    """Why it failed; left out: the error stays."""
    metadata: Any
    """Any JSON value, which replaces the earlier one; left out: it stays."""
    agent: str
    """The agent of the trace; another one is refused with 400. It may be left out."""
    name: str
    """A new name; left out: the name stays."""


class NewSpanBody(TypedDict, total=False):
    """A step of a trace. Its parent may come later than itself, so it need not be known yet."""

    id: str
    """An id of yours that no span has; left out: chosen by the service."""
    trace: Required[str]
    """The trace that the span belongs to."""
    parent: str | None
    """The span of the same trace that this one is a part of; null if it is a part of none."""
    name: Required[str]
    """What was done, such as `chat gpt-5` or `execute_tool sleep`."""
    span_type: str
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    started_at: dt.datetime | str | None
    """When it started; null or left out: now, or `ended_at` if that is earlier."""
    ended_at: dt.datetime | str | None
    """When it ended, not before its start; null or left out: it is open."""
    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value, at most `limits.span_metadata_bytes` (1 MiB) as JSON."""


class SpanEndBody(TypedDict, total=False):
    """How a span ended. A repetition keeps the first `ended_at` and replaces the rest."""

    ended_at: dt.datetime | str | None
    """When it ended, not before its start; null or left out: now."""
    error: str
    """Why it failed; left out: the error stays."""
    metadata: Any
    """Any JSON value, which replaces the earlier one; left out: it stays."""


class NewTicketBody(TypedDict, total=False):
    """A request for a stream ticket, which has no fields."""
