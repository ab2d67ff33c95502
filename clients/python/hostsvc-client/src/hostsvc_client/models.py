"""What the API answers: enums, and dataclasses that keep fields they do not know.

Written by `make client` from the API document; do not edit.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Mapping

from hostsvc_client._decode import Answer, Enumeration


class Role(Enumeration):
    """A user's rights in an organization, highest first.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class CredentialKind(Enumeration):
    """What a caller has identified itself with.

    - `user`: A user's token.
    - `api_key`: An API key.
    """

    USER = "user"
    API_KEY = "api_key"


class Unpriced(Enumeration):
    """Whether a spending cap allows calls of a model whose price is not known.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """

    REFUSE = "refuse"
    ALLOW = "allow"


class LimitScope(Enumeration):
    """What a limit applies to.

    - `organization`: The organization as a whole.
    - `credential`: Each API key, user or run token.
    - `user`: Each user.
    - `agent`: Each agent.
    - `trace`: Each trace.
    """

    ORGANIZATION = "organization"
    CREDENTIAL = "credential"
    USER = "user"
    AGENT = "agent"
    TRACE = "trace"


class DeliveryStatus(Enumeration):
    """The progress of a delivery.

    - `pending`: It waits for its first attempt or a retry.
    - `delivered`: The receiver has confirmed it.
    - `failed`: It was given up; it can be sent again on request.
    """

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Verification(Enumeration):
    """How a sender proves that a delivery is its own.

    - `standard`: Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    - `github`: GitHub: `X-Hub-Signature-256`.
    - `stripe`: Stripe: `Stripe-Signature`.
    - `slack`: Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp`.
    - `hmac`: An HMAC of the body, as `header`, `algorithm`, `encoding` and `prefix` say.
    - `token`: The secret as the last part of the path, for senders that cannot sign.
    """

    STANDARD = "standard"
    GITHUB = "github"
    STRIPE = "stripe"
    SLACK = "slack"
    HMAC = "hmac"
    TOKEN = "token"


class Algorithm(Enumeration):
    """The hash function of an HMAC."""

    SHA256 = "sha256"
    SHA512 = "sha512"
    SHA1 = "sha1"


class Encoding(Enumeration):
    """How a signature is written."""

    HEX = "hex"
    BASE64 = "base64"


class Source(Enumeration):
    """Where a notification comes from.

    Conversational sources (`email`, `sms`, `mms`, `sms_provider_a`, `sms_provider_b`, unless the operator
    chose others) wake the agent when no further message has come for the debounce window; all others wake
    it at once.

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

    EMAIL = "email"
    SMS = "sms"
    MMS = "mms"
    SMS_PROVIDER_A = "sms_provider_a"
    SMS_PROVIDER_B = "sms_provider_b"
    SYSTEM = "system"
    AGENT = "agent"
    SUBAGENT = "subagent"
    BROWSER = "browser"
    API = "api"
    PORTAL = "portal"


class Priority(Enumeration):
    """Whether a notification wakes its agent.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """

    HIGH = "high"
    LOW = "low"


class ActorType(Enumeration):
    """The kinds of those who change something.

    - `run`: A run of an agent, by one of its tools.
    - `key`: An API key.
    - `user`: A user.
    - `operator`: The operator of the service.
    - `hook`: An inbound hook.
    - `link`: Whoever had the link to an approval that a webhook sent.
    - `program`: Another program, which wrote to the database.
    - `service`: The service itself, by a rule.
    """

    RUN = "run"
    KEY = "key"
    USER = "user"
    OPERATOR = "operator"
    HOOK = "hook"
    LINK = "link"
    PROGRAM = "program"
    SERVICE = "service"


class ReasoningEffort(Enumeration):
    """How much a model should think before it answers. `none` sends no effort to the model."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


class CarryOver(Enumeration):
    """How much of its earlier runs an agent is told when it wakes.

    - `none`: Nothing but its core memory and the messages of the contacts concerned.
    - `journal`: The last entries of its journal, which the service writes at the end of each run; the
    default.
    - `transcript`: The conversation of its earlier runs with the model, which is compacted when it grows
    too long, and the journal of the last run.
    """

    NONE = "none"
    JOURNAL = "journal"
    TRANSCRIPT = "transcript"


class Reply(Enumeration):
    """How an agent answers the contact that woke it.

    - `tool`: By a tool such as `send_message`; the text of a final answer goes to nobody. The default.
    - `text`: By the text of its final answer, which the service sends to the contact that woke the agent.
    """

    TOOL = "tool"
    TEXT = "text"


class ToolChoice(Enumeration):
    """Whether a model may or must call tools.

    - `auto`: As the model decides. The default.
    - `required`: The model must call a tool in each turn, so its runs end with `sleep`.
    - `none`: The model may call no tool. For templates whose `reply` is `text`.
    """

    AUTO = "auto"
    REQUIRED = "required"
    NONE = "none"


class Visibility(Enumeration):
    """Who can see and use an adapter with its tools.

    - `public`: All organizations; only an operator can publish an adapter.
    - `private`: Only its own organization.
    """

    PUBLIC = "public"
    PRIVATE = "private"


class ApprovalMode(Enumeration):
    """Which calls wait until a person allows them.

    - `never`: None.
    - `always`: All.
    - `first_use`: All of an agent until one of them is approved, which grants the others.
    """

    NEVER = "never"
    ALWAYS = "always"
    FIRST_USE = "first_use"


class AgentAction(Enumeration):
    """Something that people do to many agents at once.

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

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    ARCHIVE = "archive"
    RESTORE = "restore"
    CLEAR = "clear"
    UNCLEAR = "unclear"
    TAG = "tag"
    UNTAG = "untag"


class Purpose(Enumeration):
    """What an agent is for. It is a label to filter by and has no other effect.

    - `production`: It does real work; the default.
    - `eval`: It is being evaluated.
    - `dev`: It is being developed.
    """

    PRODUCTION = "production"
    EVAL = "eval"
    DEV = "dev"


class AgentStatus(Enumeration):
    """The activity of an agent as clients see it; the supervisor's `Phase` is finer.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """

    RUNNING = "running"
    SLEEPING = "sleeping"
    ARCHIVED = "archived"


class ShownPhase(Enumeration):
    """The state of an agent in lists for people, who want to tell a spent budget from sleep.

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

    ASLEEP = "asleep"
    HOLDING = "holding"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    QUARANTINED = "quarantined"
    OVER_BUDGET = "over_budget"
    HELD_BY_LIMITS = "held_by_limits"
    PAUSED = "paused"
    RUNNING = "running"
    STOPPING = "stopping"
    ARCHIVED = "archived"


class Channel(Enumeration):
    """The ways that messages travel: the sources of notifications that are conversations.

    - `email`: E-mail.
    - `sms`: SMS.
    - `mms`: iMessage or RCS.
    - `sms_provider_a`: SMS through a further provider.
    - `sms_provider_b`: SMS through another further provider.
    """

    EMAIL = "email"
    SMS = "sms"
    MMS = "mms"
    SMS_PROVIDER_A = "sms_provider_a"
    SMS_PROVIDER_B = "sms_provider_b"


class Direction(Enumeration):
    """The direction of a message, seen from the agent.

    - `inbound`: From a contact to the agent.
    - `outbound`: From the agent to a contact.
    """

    INBOUND = "inbound"
    OUTBOUND = "outbound"


class MessageStatus(Enumeration):
    """The state of a message.

    It is `queued` while a tool sends it, and stays so if the service ends or the run is stopped before
    that.

    - `received`: An inbound message; its default.
    - `queued`: An outbound message that is not yet known to be sent; its default.
    - `sent`: An outbound message that was handed to its channel.
    - `failed`: An outbound message that was not sent, also because no tool of the agent serves its channel.
    """

    RECEIVED = "received"
    QUEUED = "queued"
    SENT = "sent"
    FAILED = "failed"


class Outcome(Enumeration):
    """How a run ended.

    - `slept`: The agent asked for sleep, and it was granted.
    - `ended`: The agent finished without asking for sleep. It is a failure if its queue is left as it was.
    - `turn_limit`: The agent used all turns of `max_turns`.
    - `failed`: An error ended the run; it is retried after a backoff.
    - `stopped`: A request, an archive, a pause or the deletion of the agent ended the run.
    - `timed_out`: The run took longer than `runs.max_seconds`; it is retried after a backoff.
    - `budget`: A spending cap was reached, or refuses the model because its price is not known.
    - `interrupted`: The service ended during the run; it is retried after the restart.
    """

    SLEPT = "slept"
    ENDED = "ended"
    TURN_LIMIT = "turn_limit"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"


class TurnKind(Enumeration):
    """The kind of an entry in a transcript.

    - `turn`: What the agent was told, its model's answer, and the results of the tools that it called.
    - `summary`: The model's summary of all earlier entries, which are carried no further.
    """

    TURN = "turn"
    SUMMARY = "summary"


class ChatRole(Enumeration):
    """The author of a message, in the terms of the chat-completions protocol."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class RunAnswer(Enumeration):
    """The answer to a run request.

    - `started`: A run has started.
    - `queued`: A run will start: when a run slot is free, or when the run that is stopping has ended.
    - `already_running`: A run is active. Another one follows it only if an active notification is left.
    - `sleeping`: The agent was left asleep, because `wakeup` was false and its sleep has not ended.
    - `paused`: The agent or its organization is paused; no run is made.
    - `over_budget`: A spending cap is reached; no run is made.
    """

    STARTED = "started"
    QUEUED = "queued"
    ALREADY_RUNNING = "already_running"
    SLEEPING = "sleeping"
    PAUSED = "paused"
    OVER_BUDGET = "over_budget"


class StopReply(Enumeration):
    """The answer to a stop.

    - `stopped`: The run has ended, or what was about to start one was cancelled.
    - `stopping`: The run was asked to end and has not ended within a second; it will.
    - `not_running`: There was nothing to stop.
    """

    STOPPED = "stopped"
    STOPPING = "stopping"
    NOT_RUNNING = "not_running"


class PromptOwner(Enumeration):
    """Whose system prompt a run was told.

    - `agent`: The agent's own.
    - `template`: That of the agent's template, because the agent has none.
    """

    AGENT = "agent"
    TEMPLATE = "template"


class Phase(Enumeration):
    """The state of an agent as its supervisor sees it.

    - `asleep`: It sleeps until something wakes it.
    - `holding`: A conversation has begun; the agent is woken when no further message comes for the debounce
    window.
    - `queued`: It is due to start and waits for a free run slot.
    - `backing_off`: It waits for a retry, 1 s at first and twice as long each time, up to 300 s.
    - `quarantined`: Five runs in a row failed, or cleared none of its high-priority notifications; it rests
    for 15 minutes, or longer each time, up to 6 hours.
    - `paused`: It or its organization is paused; nothing starts.
    - `running`: A run is active.
    - `stopping`: Its run was asked to stop and has not ended yet.
    - `archived`: Nothing wakes it until it is restored.
    """

    ASLEEP = "asleep"
    HOLDING = "holding"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    QUARANTINED = "quarantined"
    PAUSED = "paused"
    RUNNING = "running"
    STOPPING = "stopping"
    ARCHIVED = "archived"


class BandPhase(Enumeration):
    """The phase of an agent during a part of a period.

    - `asleep`: It slept until something would wake it.
    - `holding`: It waited for a conversation to pause.
    - `queued`: It was due to start and waited for a free run slot.
    - `backing_off`: It waited for a retry.
    - `quarantined`: It rested after too many failures.
    - `over_budget`: It, or its organization, had spent the budget of the day.
    - `held_by_limits`: Something waited until it might wake again, or until its quiet hours ended.
    - `paused`: It, its organization or the whole instance was paused.
    - `running`: A run was active.
    - `stopping`: Its run was asked to stop and had not ended yet.
    - `archived`: It was archived.
    - `unknown`: It did not exist yet, or its events are no longer kept; `why` says which.
    """

    ASLEEP = "asleep"
    HOLDING = "holding"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    QUARANTINED = "quarantined"
    OVER_BUDGET = "over_budget"
    HELD_BY_LIMITS = "held_by_limits"
    PAUSED = "paused"
    RUNNING = "running"
    STOPPING = "stopping"
    ARCHIVED = "archived"
    UNKNOWN = "unknown"


class AgentSort(Enumeration):
    """The order of a list of agents; among equals, the newest comes first.

    - `-created_at`: By the time of creation, the newest first.
    - `name`: By the name, ignoring case.
    - `next_wake`: By the next moment at which something is due, the earliest first; agents without one come
    last.
    - `-cost_today`: By the cost of the present UTC day, the highest first.
    - `-uncleared_high`: By the number of active high notifications, the highest first.
    """

    DESCENDING_CREATED_AT = "-created_at"
    NAME = "name"
    NEXT_WAKE = "next_wake"
    DESCENDING_COST_TODAY = "-cost_today"
    DESCENDING_UNCLEARED_HIGH = "-uncleared_high"


class AttentionKind(Enumeration):
    """A kind of thing that needs a person.

    - `paused`: The organization is paused.
    - `instance_paused`: The whole instance is paused; only its operator can end that. There is one for all
    organizations.
    - `forgotten`: The agent was due a minute ago or earlier, and nothing has started it.
    - `quarantined`: The agent rests after too many failures in a row.
    - `over_budget`: The budget of the day is spent.
    - `failing`: The last runs of the agent failed, or cleared nothing; it tries again, and rests after the
    fifth.
    - `uncleared_high`: A high-priority notification has been active for ten minutes or longer.
    - `approval`: A call of a tool waits until a person allows it, or a question until a person answers.
    - `stopped_schedule`: The time zone of a schedule is not known any more, so it comes no more.
    - `failing_webhook`: Deliveries to the webhook fail, or the service has switched it off.
    - `failed_message`: An outbound message was not sent.
    - `failed_run`: A tool failed in the run and nothing was changed afterwards; or it cleared messages of
    contacts that got no answer.
    - `failing_hook`: The `agent_created_webhook_url` of a template does not take a delivery.
    """

    PAUSED = "paused"
    INSTANCE_PAUSED = "instance_paused"
    FORGOTTEN = "forgotten"
    QUARANTINED = "quarantined"
    OVER_BUDGET = "over_budget"
    FAILING = "failing"
    UNCLEARED_HIGH = "uncleared_high"
    APPROVAL = "approval"
    STOPPED_SCHEDULE = "stopped_schedule"
    FAILING_WEBHOOK = "failing_webhook"
    FAILED_MESSAGE = "failed_message"
    FAILED_RUN = "failed_run"
    FAILING_HOOK = "failing_hook"


class AgendaKind(Enumeration):
    """The cause of a wake that lies ahead.

    - `run_request`: A run was requested.
    - `notification`: A notification is active.
    - `hold`: A conversation has paused for the debounce window.
    - `reminder`: A reminder falls due.
    - `sleep`: The sleep that the agent was given ends.
    - `retry`: The agent tries again.
    - `schedule`: A schedule comes.
    """

    RUN_REQUEST = "run_request"
    NOTIFICATION = "notification"
    HOLD = "hold"
    REMINDER = "reminder"
    SLEEP = "sleep"
    RETRY = "retry"
    SCHEDULE = "schedule"


class AttentionAction(Enumeration):
    """What to do about something that failed.

    - `send`: Send the message or the delivery again, under its own id.
    - `dismiss`: Show it no longer among what needs a person. A message that fails again is shown again.
    """

    SEND = "send"
    DISMISS = "dismiss"


class EventType(Enumeration):
    """A kind of change that the event log records.

    - `agent.created`: An agent was created.
    - `agent.changed`: Settings of an agent were changed; `fields` names them.
    - `agent.deleted`: An agent was deleted.
    - `agent.asleep`: An agent sleeps: its run is over, or what it waited for is gone.
    - `agent.holding`: A conversation has begun; the agent wakes when it pauses.
    - `agent.queued`: A start is due and waits for a run slot.
    - `agent.backing_off`: An agent waits for a retry.
    - `agent.quarantined`: Too many runs in a row have failed.
    - `agent.over_budget`: An agent, or its organization, has spent its budget of the day.
    - `agent.held_by_limits`: Something waits until an agent may wake again, or until its quiet hours end.
    - `agent.paused`: An agent was paused: nothing starts it.
    - `agent.unpaused`: The pause of an agent has ended.
    - `agent.stopping`: The active run was asked to stop.
    - `agent.stopped`: An agent was stopped: what is in its queue no longer starts it.
    - `agent.archived`: An agent was archived.
    - `agent.restored`: An archived agent was restored.
    - `agent.rescheduled`: The phase is the same, but what the agent waits for has changed.
    - `run.started`: A run has started; the agent is running.
    - `run.ended`: A run is over.
    - `notification.created`: A notification was added to an agent's queue.
    - `notification.changed`: A notification was changed; `fields` names what. An end of its clearing is
    such a change, too.
    - `notification.cleared`: A notification was cleared.
    - `notification.deleted`: A notification was deleted.
    - `message.received`: A message from a contact was stored.
    - `message.sent`: A message to a contact was sent.
    - `message.failed`: A message to a contact could not be sent.
    - `budget.reached`: The budget of an agent or of its organization for the day is spent.
    - `webhook.given_up`: A delivery was given up after its last attempt.
    - `webhook.disabled`: An event webhook that failed for five days was switched off.
    - `hook.ignored`: A delivery to an inbound hook did not fit the hook's `only_if`.
    - `hook.refused`: A delivery to an inbound hook was refused; of many, one a minute.
    - `schedule.created`: A schedule was created.
    - `schedule.changed`: Settings of a schedule were changed; `fields` names them. It is also paused when
    it ends.
    - `schedule.deleted`: A schedule was deleted.
    - `schedule.occurred`: A moment of a schedule has come; `outcome` says what became of it.
    - `approval.requested`: A person is asked: for an approval of a call of a tool, or for an answer. `kind`
    says which.
    - `approval.reminded`: A person was asked hours ago, or the wait for the decision ends soon.
    - `approval.decided`: A person has decided; `approved` says how, and `grant` names what it allows from
    now on.
    - `approval.expired`: Nobody has decided in time.
    - `approval.withdrawn`: No decision is needed any more: the agent or the tool has changed or is gone.
    - `organization.paused`: An organization was paused: none of its agents starts.
    - `organization.unpaused`: The pause of an organization has ended.
    - `audit`: An entry of the audit log that only admins may see: no stream, webhook or timeline shows it.
    """

    AGENT_CREATED = "agent.created"
    AGENT_CHANGED = "agent.changed"
    AGENT_DELETED = "agent.deleted"
    AGENT_ASLEEP = "agent.asleep"
    AGENT_HOLDING = "agent.holding"
    AGENT_QUEUED = "agent.queued"
    AGENT_BACKING_OFF = "agent.backing_off"
    AGENT_QUARANTINED = "agent.quarantined"
    AGENT_OVER_BUDGET = "agent.over_budget"
    AGENT_HELD_BY_LIMITS = "agent.held_by_limits"
    AGENT_PAUSED = "agent.paused"
    AGENT_UNPAUSED = "agent.unpaused"
    AGENT_STOPPING = "agent.stopping"
    AGENT_STOPPED = "agent.stopped"
    AGENT_ARCHIVED = "agent.archived"
    AGENT_RESTORED = "agent.restored"
    AGENT_RESCHEDULED = "agent.rescheduled"
    RUN_STARTED = "run.started"
    RUN_ENDED = "run.ended"
    NOTIFICATION_CREATED = "notification.created"
    NOTIFICATION_CHANGED = "notification.changed"
    NOTIFICATION_CLEARED = "notification.cleared"
    NOTIFICATION_DELETED = "notification.deleted"
    MESSAGE_RECEIVED = "message.received"
    MESSAGE_SENT = "message.sent"
    MESSAGE_FAILED = "message.failed"
    BUDGET_REACHED = "budget.reached"
    WEBHOOK_GIVEN_UP = "webhook.given_up"
    WEBHOOK_DISABLED = "webhook.disabled"
    HOOK_IGNORED = "hook.ignored"
    HOOK_REFUSED = "hook.refused"
    SCHEDULE_CREATED = "schedule.created"
    SCHEDULE_CHANGED = "schedule.changed"
    SCHEDULE_DELETED = "schedule.deleted"
    SCHEDULE_OCCURRED = "schedule.occurred"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_REMINDED = "approval.reminded"
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_EXPIRED = "approval.expired"
    APPROVAL_WITHDRAWN = "approval.withdrawn"
    ORGANIZATION_PAUSED = "organization.paused"
    ORGANIZATION_UNPAUSED = "organization.unpaused"
    AUDIT = "audit"


class AheadKind(Enumeration):
    """A kind of moment that lies ahead of an agent.

    - `wake`: The agent wakes, unless something else wakes it earlier.
    - `retry`: The agent tries again after a failure or an interruption.
    - `reminder`: A reminder falls due.
    - `schedule`: A schedule comes.
    - `cap`: The longest sleep that the agent may take ends.
    - `budget_renewal`: The budget of the next day begins.
    """

    WAKE = "wake"
    RETRY = "retry"
    REMINDER = "reminder"
    SCHEDULE = "schedule"
    CAP = "cap"
    BUDGET_RENEWAL = "budget_renewal"


class Speaker(Enumeration):
    """Who speaks in an entry of a transcript.

    - `system`: The system prompt.
    - `user`: What the model was told: why the agent woke, what arrived during the run.
    - `assistant`: What the model answered: a text, calls of tools, or both.
    - `tool`: What a tool returned.
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class IfUncleared(Enumeration):
    """What happens when the notification of an earlier occurrence is still uncleared.

    - `merge`: That notification is updated: how many occurrences it stands for, and the latest of them.
    - `add`: Another one is added.
    """

    MERGE = "merge"
    ADD = "add"


class OnlyIf(Enumeration):
    """The condition on which an occurrence notifies.

    - `always`: It always does.
    - `waiting`: Only if another uncleared notification of the agent waits, whatever its priority.
    """

    ALWAYS = "always"
    WAITING = "waiting"


class WakeIf(Enumeration):
    """The answer to a check that notifies. The same answer as the last time never does.

    - `changed`: One that differs from the last. The first only begins the comparison.
    - `nonempty`: One that differs from the last and is neither null nor an empty text, list or object.
    - `error`: The first error after the start or after an answer.
    """

    CHANGED = "changed"
    NONEMPTY = "nonempty"
    ERROR = "error"


class PausedReason(Enumeration):
    """The reason why a schedule notifies nobody.

    - ``: It is not paused.
    - `manual`: A request paused it. Its occurrences pass, and are recorded.
    - `agent_archived`: Its agent is archived. Its occurrences pass until the agent is restored.
    - `timezone`: Its time zone is not known any more, so nobody can say when it comes next.
    - `ended`: It has no further occurrence.
    """

    NONE = ""
    MANUAL = "manual"
    AGENT_ARCHIVED = "agent_archived"
    TIMEZONE = "timezone"
    ENDED = "ended"


class OccurrenceOutcome(Enumeration):
    """What became of an occurrence.

    - `fired`: It has put a notification into the queue.
    - `merged`: It has updated the notification that still waited.
    - `late`: It was dropped, because it was later than `late_seconds`.
    - `paused`: It passed while the schedule was paused or its agent archived.
    - `nothing_waiting`: It passed, because nothing waited.
    - `unchanged`: Its check found nothing to tell.
    - `failed`: Its check failed. The third time in a row puts a notification of low priority into the
    queue.
    - `manual`: A request has made it.
    """

    FIRED = "fired"
    MERGED = "merged"
    LATE = "late"
    PAUSED = "paused"
    NOTHING_WAITING = "nothing_waiting"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    MANUAL = "manual"


class CallState(Enumeration):
    """How far a parked call is.

    - `pending`: A person is asked.
    - `due`: It was decided, and the service is about to make the call, or to go on with it.
    - `calling`: The service makes the call.
    - `waiting`: The tool was called, and sends its result later.
    - `done`: The agent was told the result or the answer.
    - `failed`: The call was made and failed, or nobody knows whether it had an effect.
    - `denied`: A person has denied it, or declined to answer.
    - `expired`: Nothing came in time.
    - `withdrawn`: The agent or the tool has changed or is gone, so nobody needs to decide any more.
    """

    PENDING = "pending"
    DUE = "due"
    CALLING = "calling"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class CallKind(Enumeration):
    """What a parked call waits for.

    - `approval`: A person allows or denies the call of a tool.
    - `question`: A person answers a question of the agent.
    - `result`: A tool that was called sends its result later.
    - `input`: A person answers a question of the tool, which then goes on.
    """

    APPROVAL = "approval"
    QUESTION = "question"
    RESULT = "result"
    INPUT = "input"


class ProjectStatus(Enumeration):
    """The progress of a project, which the service only stores.

    - `active`: Work goes on; the default.
    - `done`: The work is done.
    - `archived`: Kept for reference.
    """

    ACTIVE = "active"
    DONE = "done"
    ARCHIVED = "archived"


class SpanExpansion(Enumeration):
    """What the spans on the page of a trace are shown with."""

    METADATA = "metadata"


class ServiceState(Enumeration):
    """The state of the service.

    - `ready`: All is well.
    - `draining`: It ends: it starts no runs and waits for those that are active.
    - `degraded`: It serves with a problem, or cannot serve; `reasons` say which.
    """

    READY = "ready"
    DRAINING = "draining"
    DEGRADED = "degraded"


class Scope(Enumeration):
    """What the metrics are about.

    - `service`: All nodes: gauges are sums, of lateness the worst; counters also have what ended nodes have
    counted. While several nodes live, there are no figures of processes.
    - `node`: The node that answers, since its start.
    """

    SERVICE = "service"
    NODE = "node"


@dataclass(frozen=True, kw_only=True)
class SignedUp(Answer):
    """A token, its user, and the organization that the user now belongs to."""

    token: str
    """To be sent as `Authorization: Token …`; valid for `accounts.token_days` (30 days)."""
    user: User
    """The user, who may have existed before an invite was accepted."""
    organization: Organization
    """The organization that the user now belongs to."""


@dataclass(frozen=True, kw_only=True)
class User(Answer):
    """A person with an account."""

    id: str
    """Chosen by the service."""
    email: str
    """The address that the person logs in with."""
    name: str
    """The name of the person; "" if it is not known."""


@dataclass(frozen=True, kw_only=True)
class Organization(Answer):
    """An organization, by its id and name."""

    id: str
    """Chosen by the service; `X-Organization` takes it."""
    name: str
    """The name of the organization; several may have the same."""


@dataclass(frozen=True, kw_only=True)
class LoggedIn(Answer):
    """A token, its user, and the organizations that the user belongs to."""

    token: str
    """To be sent as `Authorization: Token …`; valid for `accounts.token_days` (30 days)."""
    user: User
    """The user who logged in."""
    organizations: list[Place]
    """The organizations of the user, at most 500; the list of organizations has all."""


@dataclass(frozen=True, kw_only=True)
class Place(Answer):
    """An organization with the user's role in it."""

    id: str
    """Chosen by the service; `X-Organization` takes it."""
    name: str
    """The name of the organization; several may have the same."""
    role: Role
    """What the user may do there.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """


@dataclass(frozen=True, kw_only=True)
class Caller(Answer):
    """Who calls, and in which roles."""

    kind: CredentialKind
    """Whether a user or an API key calls.

    - `user`: A user's token.
    - `api_key`: An API key.
    """
    user: User | None
    """The user; null for an API key."""
    api_key: CallingKey | None
    """The API key; null for a user."""
    organizations: list[Place]
    """The caller's organizations with its role in each, oldest membership first, at most 500. A key has one,
    in which it is an admin.
    """


@dataclass(frozen=True, kw_only=True)
class CallingKey(Answer):
    """The API key that calls."""

    id: str
    """The key's id, as in the list of keys."""
    name: str
    """The key's name."""


@dataclass(frozen=True, kw_only=True)
class FreshToken(Answer):
    """A token; older tokens stop working."""

    token: str
    """The new token, to be sent as `Authorization: Token …`."""


@dataclass(frozen=True, kw_only=True)
class WholeOrganization(Answer):
    """An organization, which owns agents, templates and everything else."""

    id: str
    """Chosen by the service; `X-Organization` takes it."""
    name: str
    """The name of the organization; several may have the same."""
    paused: bool
    """Whether its agents are held: true stops their runs and starts no others until it is false again."""
    max_cost_usd_per_day: float | None
    """What all its agents together may spend in a UTC day, in US dollars with at most six decimals; null: no
    cap. 0 allows no run.
    """
    unpriced: Unpriced
    """Whether the cap allows calls of models whose price is not known.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
    """
    phone_region: str
    """The region of phone numbers without a country code, as two capital letters such as `AT`; "": such
    numbers are refused.
    """
    created_at: dt.datetime
    """When the organization was created."""


@dataclass(frozen=True, kw_only=True)
class Limits(Answer):
    """The limits of an organization. Counts are a few seconds old at most, unless counting takes long."""

    organization: str
    """The organization that the limits are about."""
    limits: list[Limit]
    """All limits, those that are switched off included."""


@dataclass(frozen=True, kw_only=True)
class Limit(Answer):
    """A limit that the operator has set."""

    name: str
    """Its name in the section `[limits]` of the configuration; a refusal names it, too."""
    per: LimitScope
    """What the limit applies to.

    - `organization`: The organization as a whole.
    - `credential`: Each API key, user or run token.
    - `user`: Each user.
    - `agent`: Each agent.
    - `trace`: Each trace.
    """
    limit: int | None
    """The maximum; null: there is none."""
    used: int | None
    """How much of it is in use, a few seconds old at most; of requests per minute, how many of its own your
    credential has used up. null if the limit applies to each user, agent, trace or credential.
    """


@dataclass(frozen=True, kw_only=True)
class Membership(Answer):
    """A user's membership in an organization."""

    id: str
    """Chosen by the service; the id of the user is another one."""
    user: User
    """The member."""
    organization: str
    """The organization that the user belongs to."""
    role: Role
    """What the member may do. Nobody can change or grant a role above their own.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """
    created_at: dt.datetime
    """When the user joined."""


@dataclass(frozen=True, kw_only=True)
class NewInvite(Answer):
    """An invite with its code, which no other response contains."""

    id: str
    """Chosen by the service; the invited person needs it together with the code."""
    email: str
    """The address that is invited. If the service sends e-mail, it sends the link there."""
    role: Role
    """The role that the person will have.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """
    expires_at: dt.datetime
    """Until when it can be accepted: seven days after its creation."""
    accepted_at: dt.datetime | None
    """When it was accepted; null if it was not."""
    created_at: dt.datetime
    """When it was created."""
    code: str | None
    """The secret with which the invite is accepted. Pass it on, as it cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null.
    """


@dataclass(frozen=True, kw_only=True)
class Invite(Answer):
    """An invitation to an organization."""

    id: str
    """Chosen by the service; the invited person needs it together with the code."""
    email: str
    """The address that is invited. If the service sends e-mail, it sends the link there."""
    role: Role
    """The role that the person will have.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """
    expires_at: dt.datetime
    """Until when it can be accepted: seven days after its creation."""
    accepted_at: dt.datetime | None
    """When it was accepted; null if it was not."""
    created_at: dt.datetime
    """When it was created."""


@dataclass(frozen=True, kw_only=True)
class NewApiKey(Answer):
    """An API key with the key itself, which no other response contains."""

    id: str
    """Chosen by the service."""
    name: str
    """Any name, to tell keys apart."""
    prefix: str
    """The eight characters after `hsk_`, by which you recognize the key in your own settings."""
    is_active: bool
    """Whether the key is accepted; one that is switched off can be switched on again."""
    last_used_at: dt.datetime | None
    """When a request last used the key, to the minute; null if none did."""
    created_at: dt.datetime
    """When the key was created."""
    key: str | None
    """The key itself, to be sent as `Authorization: Bearer …`. It cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null.
    """


@dataclass(frozen=True, kw_only=True)
class ApiKey(Answer):
    """An API key, without the key itself."""

    id: str
    """Chosen by the service."""
    name: str
    """Any name, to tell keys apart."""
    prefix: str
    """The eight characters after `hsk_`, by which you recognize the key in your own settings."""
    is_active: bool
    """Whether the key is accepted; one that is switched off can be switched on again."""
    last_used_at: dt.datetime | None
    """When a request last used the key, to the minute; null if none did."""
    created_at: dt.datetime
    """When the key was created."""


@dataclass(frozen=True, kw_only=True)
class NewWebhook(Answer):
    """An event webhook with its secret, which no other response contains."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization whose events it gets."""
    url: str
    """Where the events go: an http or https URL of at most 500 characters. A change applies to later events
    only.
    """
    types: list[str]
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
    """Whether it gets events. The service switches it off after five days in which every attempt failed."""
    created_at: dt.datetime
    """When it was created."""
    updated_at: dt.datetime
    """When its fields were last changed by a request; at first the same as `created_at`."""
    failing_since: dt.datetime | None
    """The first failed attempt since the last success; null if the last attempt did not fail."""
    disabled_at: dt.datetime | None
    """When the service switched it off; null if it did not."""
    disabled_reason: str
    """Why the service switched it off, for its owner; "" if it did not."""
    secret: str | None
    """The secret that signs its requests, `whsec_` and Base64. It cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null.
    """


@dataclass(frozen=True, kw_only=True)
class Webhook(Answer):
    """An address that gets an organization's events as signed POST requests."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization whose events it gets."""
    url: str
    """Where the events go: an http or https URL of at most 500 characters. A change applies to later events
    only.
    """
    types: list[str]
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
    """Whether it gets events. The service switches it off after five days in which every attempt failed."""
    created_at: dt.datetime
    """When it was created."""
    updated_at: dt.datetime
    """When its fields were last changed by a request; at first the same as `created_at`."""
    failing_since: dt.datetime | None
    """The first failed attempt since the last success; null if the last attempt did not fail."""
    disabled_at: dt.datetime | None
    """When the service switched it off; null if it did not."""
    disabled_reason: str
    """Why the service switched it off, for its owner; "" if it did not."""


@dataclass(frozen=True, kw_only=True)
class WholeDelivery(Answer):
    """A delivery with what is sent."""

    id: str
    """Chosen by the service; the receiver gets it as `webhook-id`, the same with each attempt."""
    type: str
    """The kind of event, such as `run.ended`; `webhook.test` for a test."""
    agent: str | None
    """The agent that the event is about, which may have been deleted; null if it is about none."""
    template: str | None
    """The template whose webhook it is, which may have been deleted; null for an event webhook."""
    webhook: str | None
    """The event webhook that it goes to, which may have been deleted; null for the webhook of a template."""
    url: str
    """Where it goes: the URL that the webhook had at the time of the event."""
    status: DeliveryStatus
    """Whether it is still to be delivered, was delivered, or was given up.

    - `pending`: It waits for its first attempt or a retry.
    - `delivered`: The receiver has confirmed it.
    - `failed`: It was given up; it can be sent again on request.
    """
    attempts: int
    """How often it was sent since the event or the last redelivery."""
    created_at: dt.datetime
    """When the event happened."""
    next_attempt_at: dt.datetime | None
    """When it is sent next; null if it is no longer pending."""
    delivered_at: dt.datetime | None
    """When the receiver confirmed it; null if it did not."""
    failed_at: dt.datetime | None
    """When it was given up; null if it was not."""
    last_status: int | None
    """The HTTP status of the last answer; null if there was none."""
    last_error: str
    """Why the last attempt failed; "" if it did not."""
    payload: dict[str, Any]
    """The body of the request: `type`, `timestamp` and `data`."""


@dataclass(frozen=True, kw_only=True)
class RotatedWebhook(Answer):
    """An event webhook with its new secret, which no other response contains."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization whose events it gets."""
    url: str
    """Where the events go: an http or https URL of at most 500 characters. A change applies to later events
    only.
    """
    types: list[str]
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
    """Whether it gets events. The service switches it off after five days in which every attempt failed."""
    created_at: dt.datetime
    """When it was created."""
    updated_at: dt.datetime
    """When its fields were last changed by a request; at first the same as `created_at`."""
    failing_since: dt.datetime | None
    """The first failed attempt since the last success; null if the last attempt did not fail."""
    disabled_at: dt.datetime | None
    """When the service switched it off; null if it did not."""
    disabled_reason: str
    """Why the service switched it off, for its owner; "" if it did not."""
    secret: str
    """The new secret, which signs all requests from now on. It cannot be read again."""
    old_secret_until: dt.datetime
    """Until when the secret before it signs the same requests, too."""


@dataclass(frozen=True, kw_only=True)
class Delivery(Answer):
    """The delivery of one event to an event webhook, or to the webhook of a template."""

    id: str
    """Chosen by the service; the receiver gets it as `webhook-id`, the same with each attempt."""
    type: str
    """The kind of event, such as `run.ended`; `webhook.test` for a test."""
    agent: str | None
    """The agent that the event is about, which may have been deleted; null if it is about none."""
    template: str | None
    """The template whose webhook it is, which may have been deleted; null for an event webhook."""
    webhook: str | None
    """The event webhook that it goes to, which may have been deleted; null for the webhook of a template."""
    url: str
    """Where it goes: the URL that the webhook had at the time of the event."""
    status: DeliveryStatus
    """Whether it is still to be delivered, was delivered, or was given up.

    - `pending`: It waits for its first attempt or a retry.
    - `delivered`: The receiver has confirmed it.
    - `failed`: It was given up; it can be sent again on request.
    """
    attempts: int
    """How often it was sent since the event or the last redelivery."""
    created_at: dt.datetime
    """When the event happened."""
    next_attempt_at: dt.datetime | None
    """When it is sent next; null if it is no longer pending."""
    delivered_at: dt.datetime | None
    """When the receiver confirmed it; null if it did not."""
    failed_at: dt.datetime | None
    """When it was given up; null if it was not."""
    last_status: int | None
    """The HTTP status of the last answer; null if there was none."""
    last_error: str
    """Why the last attempt failed; "" if it did not."""


@dataclass(frozen=True, kw_only=True)
class NewHook(Answer):
    """A hook with its secret, which no other response contains."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization that owns it."""
    path: str
    """Where deliveries are sent: this path at the address of the service. With `verify` `token` the secret and
    a slash follow.
    """
    name: str
    """Any name; also the title of a notification whose `title` turns out blank."""
    agent: str | None
    """The agent that gets the notifications; null: `template` says which one."""
    template: str | None
    """Each delivery creates an agent from this template, named after the title, which gets the notification;
    null: `agent` gets all.
    """
    verify: Verification
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
    algorithm: Algorithm
    """The hash function of the signature, for `hmac`."""
    encoding: Encoding
    """How the signature is written, for `hmac`."""
    prefix: str
    """What stands before the signature in its header, such as `sha256=`, for `hmac`."""
    title: str
    """The title of the notifications, in which `{{ pull_request.title }}` stands for a value in the payload,
    and `{{ commits.0.id }}` for one in a list; what is missing is blank.
    """
    body: str
    """The details of the notifications, with the same placeholders."""
    source: Source
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
    priority: Priority
    """The priority of the notifications.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    only_if: dict[str, Any] | None
    """A JSON Schema: a delivery whose payload does not fit is ignored; null: none is."""
    created_at: dt.datetime
    """When it was created."""
    updated_at: dt.datetime
    """When it was last changed; at first the same as `created_at`."""
    secret: str | None
    """The secret that verifies deliveries. It cannot be read again: the answer to a repeated request with the
    same `Idempotency-Key` has null.
    """


@dataclass(frozen=True, kw_only=True)
class Hook(Answer):
    """An address at which another service delivers events, which become notifications."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization that owns it."""
    path: str
    """Where deliveries are sent: this path at the address of the service. With `verify` `token` the secret and
    a slash follow.
    """
    name: str
    """Any name; also the title of a notification whose `title` turns out blank."""
    agent: str | None
    """The agent that gets the notifications; null: `template` says which one."""
    template: str | None
    """Each delivery creates an agent from this template, named after the title, which gets the notification;
    null: `agent` gets all.
    """
    verify: Verification
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
    algorithm: Algorithm
    """The hash function of the signature, for `hmac`."""
    encoding: Encoding
    """How the signature is written, for `hmac`."""
    prefix: str
    """What stands before the signature in its header, such as `sha256=`, for `hmac`."""
    title: str
    """The title of the notifications, in which `{{ pull_request.title }}` stands for a value in the payload,
    and `{{ commits.0.id }}` for one in a list; what is missing is blank.
    """
    body: str
    """The details of the notifications, with the same placeholders."""
    source: Source
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
    priority: Priority
    """The priority of the notifications.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    only_if: dict[str, Any] | None
    """A JSON Schema: a delivery whose payload does not fit is ignored; null: none is."""
    created_at: dt.datetime
    """When it was created."""
    updated_at: dt.datetime
    """When it was last changed; at first the same as `created_at`."""


@dataclass(frozen=True, kw_only=True)
class HookDelivery(Answer):
    """A delivery to a hook."""

    outcome: str
    """`accepted`, `ignored` because of `only_if`, or `refused`, of which one a minute is recorded. A test can
    also be `repeated`.
    """
    error: str
    """Why it was not accepted; "" if it was."""
    notification: str | None
    """The notification that it became, which may have been deleted; null if it was not accepted."""
    agent: str | None
    """The agent that it is for, which may have been deleted; null if there was none yet."""
    created_at: dt.datetime
    """When it came."""


@dataclass(frozen=True, kw_only=True)
class Secret(Answer):
    """A secret that code and tools of agents use, without its value, which nobody can read again."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization that the secret belongs to."""
    template: str | None
    """The template whose agents alone use the secret; null: the agents of all templates of the organization.
    """
    name: str
    """The name of an environment variable, unique in the organization or in the template. A secret of the
    template takes precedence over one of the organization with the same name.
    """
    created_at: dt.datetime
    """When the secret was created."""
    updated_at: dt.datetime
    """When the value was last set; at first the same as `created_at`."""


@dataclass(frozen=True, kw_only=True)
class AuditEntry(Answer):
    """An entry of the audit log."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization that it concerns."""
    number: int
    """Its number in the organization: 1, 2, … without gaps."""
    created_at: dt.datetime
    """When it happened."""
    by: Actor
    """Who did it."""
    address: str
    """The address of the client; "" if there was no request."""
    resource: str
    """What it was done to, such as `template`, `api_key` or `agent`."""
    action: str
    """What was done: `created`, `changed`, `deleted`, or another word, such as `logged_in`."""
    resource_id: str | None
    """The id of the resource; null if it has none."""
    agent: str | None
    """The agent that it concerns; null if it concerns none."""
    data: dict[str, Any]
    """More about it: what the resource is called, and `fields`, the changed columns, never secret values."""
    digest: str
    """The digest of this and all earlier entries, as the export has it."""


@dataclass(frozen=True, kw_only=True)
class Actor(Answer):
    """The one who made a change."""

    type: ActorType
    """The kind of actor.

    - `run`: A run of an agent, by one of its tools.
    - `key`: An API key.
    - `user`: A user.
    - `operator`: The operator of the service.
    - `hook`: An inbound hook.
    - `link`: Whoever had the link to an approval that a webhook sent.
    - `program`: Another program, which wrote to the database.
    - `service`: The service itself, by a rule.
    """
    id: str | None
    """The id of the run, the key, the user, the hook or the approval; null for the others."""


@dataclass(frozen=True, kw_only=True)
class Template(Answer):
    """Settings that many agents share. A change reaches all agents that leave the setting blank."""

    id: str
    """Chosen by the service."""
    organization: str
    """The organization that the template belongs to."""
    name: str
    """Any name; several templates may have the same."""
    created_at: dt.datetime
    """When the template was created."""
    description: str
    """A text for people; "" if there is none."""
    system_prompt: str
    """Instructions to the model, for agents that have none of their own; "": none."""
    default_model: str
    """The model that is copied into a new agent that names none; "": each agent must name one."""
    default_reasoning_effort: ReasoningEffort
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
    """The secret that signs tool calls and webhooks: `whsec_` and Base64, or any other text; "": they are not
    signed. null is a secret that is not shown: members and repeated answers never get it, and one that
    cannot be decrypted must be set again.
    """
    max_cost_usd_per_day: float | None
    """What each agent without a cap of its own may spend in a UTC day, in US dollars with at most six
    decimals; null: no cap. 0 allows no run.
    """
    context_tokens: int
    """About how many tokens the first message of a run may have; 0: `runs.context_tokens` of the service."""
    carry_over: CarryOver
    """How much of its earlier runs an agent is told when it wakes.

    - `none`: Nothing but its core memory and the messages of the contacts concerned.
    - `journal`: The last entries of its journal, which the service writes at the end of each run; the
    default.
    - `transcript`: The conversation of its earlier runs with the model, which is compacted when it grows
    too long, and the journal of the last run.
    """
    reply: Reply
    """How an agent answers the contact that woke it.

    - `tool`: By a tool such as `send_message`; the text of a final answer goes to nobody. The default.
    - `text`: By the text of its final answer, which the service sends to the contact that woke the agent.
    """
    content: str
    """Whether traces keep what the model was told and answered, and streams show it live: `full` or `none`;
    "": `tracing.content` of the service.
    """
    content_days: int | None
    """How many days these texts are kept; null: `retention.tracing_content_days` of the service. 0: as long as
    their trace.
    """
    environment_secrets: list[str]
    """The names of the secrets that a process harness gets as environment variables, at most 24. Each is a
    secret of the template, else of the organization; a run fails if there is no such secret.
    """
    unpriced: Unpriced
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
    tool_choice: ToolChoice
    """Whether the model may or must call tools.

    - `auto`: As the model decides. The default.
    - `required`: The model must call a tool in each turn, so its runs end with `sleep`.
    - `none`: The model may call no tool. For templates whose `reply` is `text`.
    """
    response_format: dict[str, Any] | None
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
    approvers: Role
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


@dataclass(frozen=True, kw_only=True)
class Adapter(Answer):
    """A package of tools that agents can be given."""

    id: str
    """Chosen by the service; tool calls carry it, so that a server can tell whose call it is."""
    name: str
    """Any name. If tools have the same name, models see some of them with the adapter's name in front."""
    description: str
    """A text for people; "" if there is none."""
    visibility: Visibility
    """Who can see and use it. New adapters are private; an operator can publish one.

    - `public`: All organizations; only an operator can publish an adapter.
    - `private`: Only its own organization.
    """
    organization_id: str
    """The organization that owns the adapter, and alone may change it."""
    created_at: dt.datetime
    """When the adapter was created."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    config_schema: dict[str, Any]
    """The JSON Schema (2020-12) that the adapter's configs must fit, without references to other documents;
    {}: any config.
    """


@dataclass(frozen=True, kw_only=True)
class AdapterConfig(Answer):
    """The settings with which the agents of a template use an adapter."""

    id: str
    """Chosen by the service."""
    template: str
    """The template whose agents use this config."""
    adapter: str
    """The adapter that gets this config with each tool call."""
    config: Any
    """A JSON value that fits the adapter's `config_schema`, such as an API key for it; null in the answer to a
    repeated request, and if it cannot be decrypted: then set it again.
    """
    secret_headers: dict[str, str]
    """Headers of each tool call, at most 20, such as `{"Authorization": "CRM_KEY"}`. The value of each is the
    secret of this name of the template, else of the organization; a call fails if there is none.
    """
    approval: ApprovalMode | ApprovalWhen | None
    """Which calls of the agents of the template wait until a person allows them, instead of what the tools
    say; null: as the tools say. Only admins and owners change it.

    - `never`: None.
    - `always`: All.
    - `first_use`: All of an agent until one of them is approved, which grants the others.
    """
    created_at: dt.datetime
    """When the config was created."""
    updated_at: dt.datetime
    """When the config was last changed; at first the same as `created_at`."""


@dataclass(frozen=True, kw_only=True)
class ApprovalWhen(Answer):
    """Calls whose arguments fit a schema wait until a person allows them."""

    when: dict[str, Any]
    """The JSON Schema (2020-12). If it takes too long to check, the call waits, too."""


@dataclass(frozen=True, kw_only=True)
class McpServer(Answer):
    """The MCP server of an adapter."""

    adapter: str
    """The adapter that has the tools of the server."""
    url: str
    """The http or https URL of the server, which all its tools have."""
    headers: dict[str, str]
    """Headers with which the list of tools is read, at most 20, such as `{"Authorization": "CRM_KEY"}`, each
    with the name of a secret of the organization as its value. Calls have those of adapter configs.
    """
    listed_at: dt.datetime | None
    """When the list of tools was last read; null: never yet."""
    refresh_at: dt.datetime
    """When it is read again."""
    error: str
    """Why the list could not be read the last time, or which tools were left out; "" if all is well."""


@dataclass(frozen=True, kw_only=True)
class Tool(Answer):
    """Something that an agent can do: a URL of yours to which a call is sent."""

    id: str
    """Chosen by the service."""
    adapter: str
    """The adapter that the tool belongs to. Agents that have the adapter have the tool."""
    name: str
    """Unique in its adapter. Models see it with `_` for all but letters, digits, `_` and `-`."""
    description: str
    """What the tool does, as models read it; "" if there is none."""
    created_at: dt.datetime
    """When the tool was created."""
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
    approval: ApprovalMode | ApprovalWhen
    """Which calls wait until a person allows them. Only admins and owners change it.

    - `never`: None.
    - `always`: All.
    - `first_use`: All of an agent until one of them is approved, which grants the others.
    """
    offered: Any
    """What the MCP server of the tool offers and nobody has accepted, with `description`, `parameters`, and
    `is_enforced`, whether calls must fit them; {}: it offers the tool no more; null: nothing is different.
    A new tool has no `url` until it is accepted, and agents do not have it.
    """


@dataclass(frozen=True, kw_only=True)
class AgentActions(Answer):
    """What an action did, or would do, to the agents that this call has come to."""

    matched: int
    """How many of the agents this call has come to; of a dry run, all that match, up to 100,000."""
    changed: int
    """How many were changed; of a dry run, how many would be."""
    unchanged: int
    """How many were as the action leaves them already."""
    agents: list[str]
    """The agents that were changed."""
    next: str | None
    """What to send as `after`, with the same body, to go on with the other agents; null: there are none."""
    undo: AgentActionUndo | None
    """The body of the call that undoes what this call did; null if nothing was changed or nothing undoes it
    exactly.
    """
    failures: list[AgentActionFailure]
    """The agents that could not be changed."""


@dataclass(frozen=True, kw_only=True)
class AgentActionUndo(Answer):
    """The body of the call that undoes an action."""

    action: AgentAction
    """The inverse action.

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
    agents: list[str] | None = None
    """The agents that were changed."""
    notifications: list[str] | None = None
    """The notifications that were cleared."""
    tags: list[str] | None = None
    """The tags that were added or taken."""


@dataclass(frozen=True, kw_only=True)
class AgentActionFailure(Answer):
    """An agent that an action could not change."""

    agent: str
    """The id of the agent."""
    error: str
    """Why it was not changed."""


@dataclass(frozen=True, kw_only=True)
class Agent(Answer):
    """A long-lived worker. It sleeps, runs when something wakes it, and sleeps again."""

    id: str
    """Chosen by the service."""
    adapters: list[str]
    """The adapters whose tools the agent has. If tools have the same name, that of an earlier adapter keeps
    it.
    """
    organization: str
    """The organization that the agent belongs to."""
    template: str | None
    """The template whose settings the agent takes where its own are blank; null: none."""
    parent_name: str
    """The name of the parent; "" if there is none."""
    template_name: str | None
    """The name of the template; null if there is none."""
    tags: list[str]
    """Labels of yours to filter by, in the order in which they were added."""
    name: str
    """Any name; several agents may have the same."""
    model: str
    """The model, as `<provider>/<name>`; without a provider at the default one. `builtin/inbox` needs no
    network.
    """
    created_at: dt.datetime
    """When the agent was created."""
    timezone: str
    """An IANA time zone, in which the agent is told the time, and in which a datetime without an offset is
    read.
    """
    system_prompt: str
    """Instructions to the model; "": those of the template."""
    sleep_until: dt.datetime | None
    """When the agent wakes by itself; null while it runs, or if only something new wakes it."""
    email_alias: str | None
    """The local part of the agent's e-mail address, unique in the whole service, ignoring case; null: none.
    The service only stores it.
    """
    status: AgentStatus
    """Whether the agent runs, sleeps or is archived.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    paused: bool
    """Whether the agent is paused: its run is stopped and nothing starts it. What comes or falls due wakes it
    when the pause ends.
    """
    run_started_at: dt.datetime | None
    """When the active run started; null if there is none."""
    last_wake_reason: str
    """Why the last run started: `run_requested`, `notification:<source>`, `reminder`, `sleep_elapsed`,
    `restart_recovery`, `retry_after_failure` or `uncleared_notifications`; "" before the first run.
    """
    last_wake_interrupted_sleep_until: dt.datetime | None
    """The `sleep_until` that the start of the last run cut short; null if there was none."""
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
    reasoning_effort: str
    """How much the model should think; "": the effort of the template. `none` sends no effort to the model.
    """
    debounce_window_seconds: int | None
    """How many seconds a conversation must pause before it wakes the agent. 0: it wakes at once; null: the
    template's window.
    """
    call_voice_id: str
    """Only stored; it has no effect."""
    purpose: Purpose
    """A label to filter by; it has no other effect.

    - `production`: It does real work; the default.
    - `eval`: It is being evaluated.
    - `dev`: It is being developed.
    """
    parent: str | None
    """The agent that this one works for; null: none. Both can send messages to each other, and parents make no
    cycle.
    """
    max_cost_usd_per_day: float | None
    """What the agent may spend in a UTC day, in US dollars with at most six decimals; null: as much as the
    template allows. 0 allows no run.
    """
    language: str
    """The language whose word stems searches find, in documents that are written from then on; "": words are
    found only as they are written.
    """
    unpriced: Unpriced | None
    """Whether the agent's cap allows calls of models whose price is not known; null: the template says.

    - `refuse`: No: such a call could cost any amount. The default.
    - `allow`: Yes: such a call counts as free.
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


@dataclass(frozen=True, kw_only=True)
class Bounds(Answer):
    """What the settings of an agent, its template and its organization guarantee while it is not paused."""

    wakes_per_day: Bound
    """How many runs start in a day."""
    cost_usd_per_day: Bound
    """What the agent spends in a UTC day, in US dollars."""
    hold_seconds: Bound
    """How long the settings hold what is high before it starts a run."""
    next_look_seconds: Bound
    """How long after the start of a run the next one starts at the latest, even if nothing comes."""


@dataclass(frozen=True, kw_only=True)
class Bound(Answer):
    """A maximum, or the reason why there is none."""

    at_most: float | None
    """The maximum; null: unbounded."""
    because: str
    """What bounds it and what does not count, or why it is unbounded."""


@dataclass(frozen=True, kw_only=True)
class AgentTool(Answer):
    """A tool of an agent, as its model sees it."""

    name: str
    """The name to call it by: letters, digits, `_` and `-`, unique among the agent's tools."""
    description: str
    """What the tool does, and what its parameters mean if they are no JSON Schema."""
    parameters: dict[str, Any]
    """A JSON Schema for the parameters."""
    adapter: str | None
    """The adapter that the tool belongs to; null: a built-in tool, which every agent has."""


@dataclass(frozen=True, kw_only=True)
class ToolCalled(Answer):
    """The result of a call."""

    result: Any
    """The answer of the tool, as JSON or text; null if it had none."""
    left_out: str | None = None
    """What is missing from a result that would have been too long; only in that case."""


@dataclass(frozen=True, kw_only=True)
class Context(Answer):
    """What an agent is told when it wakes: the two messages, and what they were made from."""

    system: str
    """The system message: the built-in instruction, then the agent's system prompt with its placeholders
    filled in.
    """
    text: str
    """The first message of the user, which holds everything below."""
    tokens: int
    """About how many tokens `text` has, at three bytes of UTF-8 for each."""
    now: dt.datetime
    """The time that the text names."""
    timezone: str
    """The agent's time zone, in which the text names all times."""
    run: str | None
    """The run that is under way; null: the text is what a run would be told now."""
    wake_reason: str
    """Why that run started; "" if none is under way."""
    asleep_since: dt.datetime | None
    """When the run before ended; null if there was none."""
    interrupted_sleep_until: dt.datetime | None
    """The end of the sleep that the run cut short; null if there was none."""
    max_sleep_until: dt.datetime | None
    """The latest time that the run may let the agent sleep until; null: no limit, or no run."""
    notifications: list[ContextNotification]
    """The notifications that wait: high-priority ones first, then the oldest first."""
    notifications_left_out: int
    """How many further notifications wait, as far as they were counted: there may be more than 50."""
    conversations: list[ContextConversation]
    """The conversations with the contacts concerned, the most concerned first."""
    memory: ContextMemory | None
    """The agent's core memory; null if it has none."""
    journal: list[ContextRun]
    """The last runs, the latest at the end; none if the template carries nothing over."""
    files: list[ContextFile]
    """The images and PDFs of messages that wait, in the order in which the model sees them."""


@dataclass(frozen=True, kw_only=True)
class ContextNotification(Answer):
    """A notification that waits for the agent."""

    id: str
    """The id to clear it by."""
    source: Source
    """Where it comes from.

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
    """What it refers to at its source, such as the id of the contact that wrote; "" if nothing."""
    priority: Priority
    """High ones must be cleared before the agent can sleep.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    title: str
    """One line about it."""
    body: str
    """Its text, possibly cut."""
    is_cut: bool
    """Whether the text was cut to fit; the tool `list_notifications` shows it whole."""
    created_at: dt.datetime
    """When it was created."""
    scheduled_for: dt.datetime | None
    """When it fell due, if it was a reminder; else null."""


@dataclass(frozen=True, kw_only=True)
class ContextConversation(Answer):
    """The last messages between the agent and a contact."""

    contact: str
    """The id of the contact."""
    name: str
    """The contact's name."""
    phone: str
    """The contact's phone number; "" if there is none."""
    email: str
    """The contact's e-mail address; "" if there is none."""
    messages: list[ContextMessage]
    """The messages, the latest at the end."""
    has_earlier: bool
    """Whether there are earlier messages that were left out."""


@dataclass(frozen=True, kw_only=True)
class ContextMessage(Answer):
    """A message of a conversation."""

    id: str
    """The id of the message."""
    channel: Channel
    """The way it travelled.

    - `email`: E-mail.
    - `sms`: SMS.
    - `mms`: iMessage or RCS.
    - `sms_provider_a`: SMS through a further provider.
    - `sms_provider_b`: SMS through another further provider.
    """
    direction: Direction
    """Its direction, seen from the agent.

    - `inbound`: From a contact to the agent.
    - `outbound`: From the agent to a contact.
    """
    subject: str
    """Its subject; "" if it has none."""
    body: str
    """Its text, possibly cut."""
    is_cut: bool
    """Whether the text was cut to fit."""
    attachments: int
    """How many files belong to it."""
    status: MessageStatus
    """Whether it was received or sent.

    - `received`: An inbound message; its default.
    - `queued`: An outbound message that is not yet known to be sent; its default.
    - `sent`: An outbound message that was handed to its channel.
    - `failed`: An outbound message that was not sent, also because no tool of the agent serves its channel.
    """
    created_at: dt.datetime
    """When it was received or written."""


@dataclass(frozen=True, kw_only=True)
class ContextMemory(Answer):
    """The core memory of the agent."""

    path: str
    """The path of the document."""
    content: str
    """Its text, possibly cut; "" if there is no room for it."""
    is_cut: bool
    """Whether the text was cut to fit."""


@dataclass(frozen=True, kw_only=True)
class ContextRun(Answer):
    """A run that has ended, as the agent is told about it."""

    started_at: dt.datetime
    """When it started."""
    ended_at: dt.datetime
    """When it ended."""
    wake_reason: str
    """Why it started."""
    outcome: Outcome
    """How it ended.

    - `slept`: The agent asked for sleep, and it was granted.
    - `ended`: The agent finished without asking for sleep. It is a failure if its queue is left as it was.
    - `turn_limit`: The agent used all turns of `max_turns`.
    - `failed`: An error ended the run; it is retried after a backoff.
    - `stopped`: A request, an archive, a pause or the deletion of the agent ended the run.
    - `timed_out`: The run took longer than `runs.max_seconds`; it is retried after a backoff.
    - `budget`: A spending cap was reached, or refuses the model because its price is not known.
    - `interrupted`: The service ended during the run; it is retried after the restart.
    """
    entry: str
    """What the agent is told about the run."""


@dataclass(frozen=True, kw_only=True)
class ContextFile(Answer):
    """An image or a PDF that came with a message, and is sent to the model beside `text`."""

    message: str
    """The message that it came with."""
    name: str
    """The name of the file; "" if it has none."""
    content_type: str
    """Its media type."""
    size: int
    """How many bytes it has."""
    url: str
    """The address to read it from."""
    is_left_out: bool
    """Whether it is only named, because the files before it have used the room."""


@dataclass(frozen=True, kw_only=True)
class TranscriptTurn(Answer):
    """An entry of a transcript: a turn of a run, or the summary of all entries before it."""

    id: str
    """Chosen by the service."""
    agent: str
    """The agent whose transcript it is."""
    run: str
    """The run in which it was said or summarized."""
    kind: TurnKind
    """What the entry is.

    - `turn`: What the agent was told, its model's answer, and the results of the tools that it called.
    - `summary`: The model's summary of all earlier entries, which are carried no further.
    """
    messages: list[TranscriptMessage]
    """What was said, in its order."""
    tokens: int
    """About how many tokens the messages have."""
    carried: bool
    """Whether the next run starts with it. If not, a summary or a thousand newer turns took its place."""
    created_at: dt.datetime
    """When the turn or the summary was stored."""


@dataclass(frozen=True, kw_only=True)
class TranscriptMessage(Answer):
    """One message of a transcript. Long texts are cut, and say so at their end."""

    role: ChatRole
    """Who said it; in a summary always `user`, because it is told to the model."""
    text: str
    """What was said; the result of the tool as JSON; "" if there were only calls."""
    tool_calls: list[TranscriptCall]
    """The calls that the model asked for."""
    tool_call_id: str
    """The call that a result belongs to; "" for other messages."""


@dataclass(frozen=True, kw_only=True)
class TranscriptCall(Answer):
    """A call of a tool that the model asked for."""

    id: str
    """The id of the call, which the result names."""
    name: str
    """The name of the tool."""
    arguments: str
    """The arguments as JSON, as the model wrote them; long ones are left out."""


@dataclass(frozen=True, kw_only=True)
class RunAnswered(Answer):
    """The answer to a run request."""

    status: RunAnswer
    """What the request has led to.

    - `started`: A run has started.
    - `queued`: A run will start: when a run slot is free, or when the run that is stopping has ended.
    - `already_running`: A run is active. Another one follows it only if an active notification is left.
    - `sleeping`: The agent was left asleep, because `wakeup` was false and its sleep has not ended.
    - `paused`: The agent or its organization is paused; no run is made.
    - `over_budget`: A spending cap is reached; no run is made.
    """
    run: str | None
    """The run that was started, or is already active; null if there is none, also while it is queued."""


@dataclass(frozen=True, kw_only=True)
class StopAnswered(Answer):
    """The answer to a stop."""

    status: StopReply
    """What the stop has led to.

    - `stopped`: The run has ended, or what was about to start one was cancelled.
    - `stopping`: The run was asked to end and has not ended within a second; it will.
    - `not_running`: There was nothing to stop.
    """


@dataclass(frozen=True, kw_only=True)
class Run(Answer):
    """A run: one wake to sleep of an agent."""

    id: str
    """Chosen by the service."""
    agent: str
    """The agent that ran."""
    trace: str
    """The trace of the run, which has the same id."""
    wake_reason: str
    """Why it started: `run_requested`, `notification:<source>`, `reminder`, `sleep_elapsed`,
    `restart_recovery`, `retry_after_failure` or `uncleared_notifications`.
    """
    notifications: list[str]
    """The notifications that were active at its start, longest active first, at most 1,000."""
    notification_count: int
    """How many notifications were active at its start."""
    interrupted_sleep_until: dt.datetime | None
    """The end of the sleep that its start cut short; null if there was none."""
    started_at: dt.datetime
    """When it started."""
    ended_at: dt.datetime | None
    """When it ended; null while it is active."""
    turns: int
    """How many turns it had: model calls with the tool calls that they asked for. 0 for a process harness.
    """
    outcome: Outcome | None
    """How it ended; null while it is active.

    - `slept`: The agent asked for sleep, and it was granted.
    - `ended`: The agent finished without asking for sleep. It is a failure if its queue is left as it was.
    - `turn_limit`: The agent used all turns of `max_turns`.
    - `failed`: An error ended the run; it is retried after a backoff.
    - `stopped`: A request, an archive, a pause or the deletion of the agent ended the run.
    - `timed_out`: The run took longer than `runs.max_seconds`; it is retried after a backoff.
    - `budget`: A spending cap was reached, or refuses the model because its price is not known.
    - `interrupted`: The service ended during the run; it is retried after the restart.
    """
    error: str
    """What went wrong or ended it early, such as `stopped`; "" if nothing did."""
    stop_reason: str
    """The reason given with the stop that ended it; "" without one."""
    output: str
    """The text of the model's final answer, cut with a note if it has more than 20,000 characters; "" if there
    is none, as for a process harness.
    """
    journal: Journal | None
    """What it did; null while it is active, and for runs from before there were journals."""
    failed_calls: int
    """How many calls of tools failed, but for `sleep`; 0 while it is active."""
    needs_person: bool
    """Whether a tool failed and nothing was changed afterwards, unless the agent tries again with all that
    woke it; or `unanswered` in its journal names contacts, until each of them got a message. Until a person
    dismisses it; a failed message needs a person by itself.
    """
    max_sleep_until: dt.datetime | None
    """The latest moment that it may let the agent sleep until; null: no limit."""
    prompt: RunPrompt | None
    """The system prompt that it was told, as it was at the start of the run; null if there was none, and for
    runs from before this was recorded.
    """


@dataclass(frozen=True, kw_only=True)
class Journal(Answer):
    """What a run did, written by the service from its own records at the end of the run.

    For process harnesses and interrupted runs these are its trace, its usage and its messages.
    """

    woken_by: list[str]
    """The titles of the notifications that were active at its start, the first 10, 100 characters of each.
    """
    cleared: list[str]
    """The titles of the notifications that it cleared, the first 10, 100 characters of each."""
    cleared_count: int
    """How many notifications it cleared; larger numbers are shown as 1,000."""
    uncleared: list[Uncleared] | None = None
    """The first 10 notifications of high priority that were active at its end, longest active first. Left out
    for runs from before this was recorded.
    """
    uncleared_count: int | None = None
    """How many there were; larger numbers are shown as 1,000. Left out as `uncleared` is."""
    sent: list[SentMessage]
    """The first 10 messages that it wrote to contacts, also those that failed."""
    sent_count: int
    """How many messages it sent to contacts."""
    failed_count: int | None = None
    """How many of its messages failed. Left out for runs from before this was recorded: their `sent_count` has
    those, too.
    """
    unanswered: list[str] | None = None
    """The first 10 contacts whose messages it cleared without an answer, if its text was sent to nobody, or if
    it broke off before it sent one. Left out for runs from before this was recorded.
    """
    tools: list[ToolUse]
    """The tools that it called, at most 20, most calls first."""
    cost_usd: float
    """What its model calls cost, without those of unknown cost."""
    unpriced_calls: int | None = None
    """How many of its model calls are of unknown cost. Left out for runs from before this was recorded."""


@dataclass(frozen=True, kw_only=True)
class Uncleared(Answer):
    """A notification that a run left uncleared."""

    id: str
    """The notification, which may have been cleared or deleted since."""
    title: str
    """The first 100 characters of its title at the end of the run."""


@dataclass(frozen=True, kw_only=True)
class SentMessage(Answer):
    """A message that a run sent."""

    contact: str | None
    """The contact that it went to; null if the contact was deleted before the run ended."""
    name: str | None
    """The first 100 characters of the contact's name at the end of the run, or of the address that it went to
    if the contact has no name; null as for `contact`.
    """
    channel: Channel
    """The channel that it went by.

    - `email`: E-mail.
    - `sms`: SMS.
    - `mms`: iMessage or RCS.
    - `sms_provider_a`: SMS through a further provider.
    - `sms_provider_b`: SMS through another further provider.
    """
    status: MessageStatus
    """Its status at the end of the run.

    - `received`: An inbound message; its default.
    - `queued`: An outbound message that is not yet known to be sent; its default.
    - `sent`: An outbound message that was handed to its channel.
    - `failed`: An outbound message that was not sent, also because no tool of the agent serves its channel.
    """


@dataclass(frozen=True, kw_only=True)
class ToolUse(Answer):
    """The calls of one tool in a run."""

    name: str
    """The name that the tool was called by, at most 100 characters."""
    calls: int
    """How many calls there were."""
    errors: int
    """How many of the calls failed."""
    last_error: str
    """The error of the last call that failed, at most 200 characters; "" if none failed."""
    unsolved: bool | None = None
    """true: its last call failed, and no later turn of the run changed anything. Else left out."""


@dataclass(frozen=True, kw_only=True)
class RunPrompt(Answer):
    """The version of a system prompt."""

    of: PromptOwner
    """Whose prompt it is.

    - `agent`: The agent's own.
    - `template`: That of the agent's template, because the agent has none.
    """
    id: str
    """The agent or the template; it may have been deleted since."""
    version: int
    """The number of the version, as `prompts/` of the agent or the template lists it."""


@dataclass(frozen=True, kw_only=True)
class Snapshot(Answer):
    """One agent: where it is, since when and why, what wakes it next, and what keeps it from sleeping."""

    agent: str
    """The id of the agent."""
    name: str
    """The name of the agent."""
    organization: str
    """The organization that the agent belongs to."""
    status: AgentStatus
    """The status that the agent's own resource shows.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    phase: Phase
    """The state of the agent as its supervisor sees it.

    - `asleep`: It sleeps until something wakes it.
    - `holding`: A conversation has begun; the agent is woken when no further message comes for the debounce
    window.
    - `queued`: It is due to start and waits for a free run slot.
    - `backing_off`: It waits for a retry, 1 s at first and twice as long each time, up to 300 s.
    - `quarantined`: Five runs in a row failed, or cleared none of its high-priority notifications; it rests
    for 15 minutes, or longer each time, up to 6 hours.
    - `paused`: It or its organization is paused; nothing starts.
    - `running`: A run is active.
    - `stopping`: Its run was asked to stop and has not ended yet.
    - `archived`: Nothing wakes it until it is restored.
    """
    since: dt.datetime | None
    """When the phase began, as far as it is known; null if it is not."""
    why: str
    """Why the agent is in this phase, in a sentence or two for people."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only something new can wake it."""
    run: CurrentRun | None
    """The active run; null if there is none."""
    debounce: Debounce | None
    """The wait for a conversation to pause; null unless the phase is `holding`."""
    blockers: list[str]
    """The active notifications that keep it from sleeping, at most 100."""
    mailbox: Mailbox
    """The requests that wait for its supervisor."""
    failures: Failures
    """Its failures in a row, and the next retry."""
    recent: list[RecentMessage]
    """The last messages to its supervisor in the node that answers, oldest first, at most 32. They are lost
    when the supervisor leaves memory.
    """
    node: str | None
    """The name of the node that attends the agent, in which its run works; null while no node does."""


@dataclass(frozen=True, kw_only=True)
class NextWake(Answer):
    """The next moment at which the agent wakes by itself."""

    at: dt.datetime
    """When it wakes, unless something else wakes it earlier."""
    because: str
    """The cause, as a sentence."""


@dataclass(frozen=True, kw_only=True)
class CurrentRun(Answer):
    """The active run."""

    id: str
    """The id of the run."""
    trace: str
    """The id of the run's trace, which is the same."""
    started_at: dt.datetime
    """When the run started."""
    turn: int
    """The number of the current turn; 0 before the first, always in a process harness, and if the run works in
    another node than the one that answers.
    """
    max_sleep_until: dt.datetime | None
    """The latest moment that the run may sleep until; null: no limit."""


@dataclass(frozen=True, kw_only=True)
class Debounce(Answer):
    """The wait for a conversation to pause."""

    window_seconds: int
    """How many seconds must pass without a further message."""
    first_at: dt.datetime
    """When the first message of the conversation became active."""
    last_at: dt.datetime
    """When the latest message of the conversation became active."""
    due_at: dt.datetime
    """When the agent is woken if no further message comes."""


@dataclass(frozen=True, kw_only=True)
class Mailbox(Answer):
    """The requests that wait for the agent's supervisor."""

    depth: int
    """How many requests wait in the node that answers; 0 if it has no supervisor of the agent."""
    limit: int
    """How many may wait; the next one is refused with 503."""


@dataclass(frozen=True, kw_only=True)
class Failures(Answer):
    """The failures since the last run that did not fail."""

    consecutive: int
    """How many runs have failed in a row; from five on the agent is quarantined."""
    last_error: str
    """The latest error; "" if there is none."""
    retry_at: dt.datetime | None
    """When the next retry is due; null if none is planned."""


@dataclass(frozen=True, kw_only=True)
class RecentMessage(Answer):
    """A message to the supervisor."""

    at: dt.datetime
    """When the supervisor handled it."""
    message: str
    """The kind of message, such as `run request` or `notified`."""
    outcome: str
    """The result, such as the phase that followed."""


@dataclass(frozen=True, kw_only=True)
class PastSupervisor(Answer):
    """One agent as it was at a moment in the past."""

    agent: str
    """The id of the agent."""
    name: str
    """The present name of the agent."""
    organization: str
    """The organization that the agent belongs to."""
    at: dt.datetime
    """The moment."""
    phase: BandPhase
    """The phase of the agent at that moment; `unknown` if it did not exist yet or is not known any more.

    - `asleep`: It slept until something would wake it.
    - `holding`: It waited for a conversation to pause.
    - `queued`: It was due to start and waited for a free run slot.
    - `backing_off`: It waited for a retry.
    - `quarantined`: It rested after too many failures.
    - `over_budget`: It, or its organization, had spent the budget of the day.
    - `held_by_limits`: Something waited until it might wake again, or until its quiet hours ended.
    - `paused`: It, its organization or the whole instance was paused.
    - `running`: A run was active.
    - `stopping`: Its run was asked to stop and had not ended yet.
    - `archived`: It was archived.
    - `unknown`: It did not exist yet, or its events are no longer kept; `why` says which.
    """
    since: dt.datetime | None
    """When the phase began; null if that is not known."""
    why: str | None
    """Why the agent was in this phase, or why that is not known; null if only the phase is known."""
    next_wake_at: dt.datetime | None
    """When it was to wake by itself; null if only something new could wake it, or each message postponed it
    (`holding`).
    """
    run: str | None
    """The run that was active; null if there was none."""
    event: int | None
    """The id of the event that this is known from; null if that is not kept."""


@dataclass(frozen=True, kw_only=True)
class SupervisorRow(Answer):
    """An agent in a list for people: what it does and why, what wakes it next, and what it costs."""

    agent: str
    """The id of the agent."""
    name: str
    """The name of the agent."""
    organization: str
    """The organization that the agent belongs to."""
    template: str | None
    """The template of the agent; null if it has none."""
    template_name: str | None
    """The name of the template; null if it has none."""
    tags: list[str]
    """Labels of yours to filter by."""
    purpose: Purpose
    """A label to filter by.

    - `production`: It does real work; the default.
    - `eval`: It is being evaluated.
    - `dev`: It is being developed.
    """
    timezone: str
    """The IANA time zone of the agent."""
    status: AgentStatus
    """Whether the agent runs, sleeps or is archived.

    - `running`: A run is active, or is being stopped.
    - `sleeping`: No run is active: the agent sleeps, or waits for its start or for a retry.
    - `archived`: Nothing wakes the agent until it is restored.
    """
    phase: ShownPhase
    """The state of the agent as its supervisor sees it.

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
    since: dt.datetime | None
    """When the phase began, as far as it is known; null if it is not."""
    why: str
    """Why the agent is in this phase, in a sentence or two for people."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only a schedule or something new can wake it."""
    cost_today_usd: float
    """What its model calls have cost in the present UTC day, in US dollars, without those of unknown cost.
    """
    unpriced_calls_today: int
    """How many of the day's model calls are of unknown cost."""
    max_cost_usd_per_day: float | None
    """What it may spend in a UTC day, by its own cap or that of its template; null if neither has one."""
    uncleared_high: int
    """How many high notifications are active: uncleared, and not scheduled for later."""
    run: str | None
    """The active run; null if there is none."""
    node: str | None
    """The name of the node that attends the agent; null while no node does."""


@dataclass(frozen=True, kw_only=True)
class Overview(Answer):
    """What the agents of organizations do, what needs a person, and who wakes in the next 24 hours."""

    as_of: dt.datetime
    """The moment that the answer is about."""
    sentence: str
    """How many agents do what, and how many things need a person, as sentences."""
    phases: dict[str, int]
    """How many agents are in each phase; a phase without any is left out."""
    attention: list[Attention]
    """What needs a person, at most 20 of each kind, the longest-standing first. Agents of a paused
    organization are left out.
    """
    attention_total: int
    """How many things need a person."""
    attention_counts: dict[str, int]
    """How many there are of each kind. Only of `quarantined` and `over_budget`, more than 100 are counted.
    """
    agenda: list[Agenda]
    """The wakes of the next 24 hours, at most 100, the next one first."""
    agenda_total: int
    """How many wakes there are. Beyond 100, moments at which an agent acts without waking count, too."""


@dataclass(frozen=True, kw_only=True)
class Attention(Answer):
    """Something that needs a person."""

    kind: AttentionKind
    """What it is.

    - `paused`: The organization is paused.
    - `instance_paused`: The whole instance is paused; only its operator can end that. There is one for all
    organizations.
    - `forgotten`: The agent was due a minute ago or earlier, and nothing has started it.
    - `quarantined`: The agent rests after too many failures in a row.
    - `over_budget`: The budget of the day is spent.
    - `failing`: The last runs of the agent failed, or cleared nothing; it tries again, and rests after the
    fifth.
    - `uncleared_high`: A high-priority notification has been active for ten minutes or longer.
    - `approval`: A call of a tool waits until a person allows it, or a question until a person answers.
    - `stopped_schedule`: The time zone of a schedule is not known any more, so it comes no more.
    - `failing_webhook`: Deliveries to the webhook fail, or the service has switched it off.
    - `failed_message`: An outbound message was not sent.
    - `failed_run`: A tool failed in the run and nothing was changed afterwards; or it cleared messages of
    contacts that got no answer.
    - `failing_hook`: The `agent_created_webhook_url` of a template does not take a delivery.
    """
    sentence: str
    """What is wrong and what follows from it, in a sentence or two for people."""
    since: dt.datetime | None
    """Since when; null if it is not known."""
    organization: str
    """The organization that it is about."""
    agent: str | None
    """The agent that it is about; null if it is about something else."""
    agent_name: str | None
    """The name of the agent; null if it is about something else."""
    timezone: str | None
    """The IANA time zone of the agent; null if it is about something else."""
    webhook: str | None
    """The event webhook that it is about; null if it is about something else."""
    message: str | None
    """The message that was not sent; null if it is about something else."""
    run: str | None
    """The run in which something failed, or that wrote the message; null if there is none."""
    delivery: str | None
    """The delivery that the webhook of a template did not take; null if it is about something else."""
    schedule: str | None
    """The schedule that has stopped; null if it is about something else."""
    approval: str | None
    """The call or question that waits for a person; null if it is about something else."""


@dataclass(frozen=True, kw_only=True)
class Agenda(Answer):
    """A wake that lies ahead."""

    at: dt.datetime
    """When the agent wakes, unless something else wakes it earlier."""
    kind: AgendaKind
    """The cause.

    - `run_request`: A run was requested.
    - `notification`: A notification is active.
    - `hold`: A conversation has paused for the debounce window.
    - `reminder`: A reminder falls due.
    - `sleep`: The sleep that the agent was given ends.
    - `retry`: The agent tries again.
    - `schedule`: A schedule comes.
    """
    because: str
    """The cause, as a sentence; a reminder with its title."""
    agent: str
    """The agent."""
    agent_name: str
    """The name of the agent."""
    timezone: str
    """The IANA time zone of the agent."""


@dataclass(frozen=True, kw_only=True)
class AttentionActed(Answer):
    """What an action has done."""

    done: int
    """How many items it was done for. A delivery is done when it waits to be sent at once."""
    failures: list[AttentionFailure]
    """The items that it could not be done for; those that need a person go on doing so."""
    next: str | None
    """The last item that was looked at: send it as `after`, or go on with the `ids` behind it; null if there
    are no more.
    """


@dataclass(frozen=True, kw_only=True)
class AttentionFailure(Answer):
    """An item that the action could not be done for."""

    id: str
    """The message, run or delivery."""
    error: str
    """Why not, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Timeline(Answer):
    """What happened to an agent in a period."""

    agent: str
    """The agent."""
    start: dt.datetime
    """The start of the period."""
    end: dt.datetime
    """The end of the period, itself excluded."""
    bands: list[Band]
    """The phases, without gaps or overlaps from `start` to `end`, or to now if `end` lies ahead."""
    marks: list[Mark]
    """What happened beside the phases, by time, for up to 4,000 events."""
    marks_left_out: int
    """How many earlier events of the period have no mark; a shorter period shows them."""
    waiting: list[Waiting]
    """Notifications that waited during the whole period, the oldest first: of the last 500 from before it, and
    of the last 500 of those that nobody has cleared.
    """
    ahead: list[Ahead]
    """What lies ahead until `end`, by time, with up to 100 reminders and ten moments of each schedule; empty
    if `end` is past.
    """


@dataclass(frozen=True, kw_only=True)
class Band(Answer):
    """A part of a period in which the agent was in one phase for one reason."""

    phase: BandPhase
    """The phase of the agent.

    - `asleep`: It slept until something would wake it.
    - `holding`: It waited for a conversation to pause.
    - `queued`: It was due to start and waited for a free run slot.
    - `backing_off`: It waited for a retry.
    - `quarantined`: It rested after too many failures.
    - `over_budget`: It, or its organization, had spent the budget of the day.
    - `held_by_limits`: Something waited until it might wake again, or until its quiet hours ended.
    - `paused`: It, its organization or the whole instance was paused.
    - `running`: A run was active.
    - `stopping`: Its run was asked to stop and had not ended yet.
    - `archived`: It was archived.
    - `unknown`: It did not exist yet, or its events are no longer kept; `why` says which.
    """
    start: dt.datetime
    """When the band begins: at the end of the one before it."""
    end: dt.datetime
    """When the band ends, itself excluded."""
    why: str | None
    """The sentence that explained the agent at that time; null if it is not kept."""
    run: str | None
    """The run that was active; null if there was none."""
    event: int | None
    """The id of the event that began the band; null if that is not kept."""


@dataclass(frozen=True, kw_only=True)
class Mark(Answer):
    """Something that happened beside the phases. A notification is one mark, from arrival to clearing."""

    at: dt.datetime
    """When it happened; for a notification when it arrived, which may be before the period."""
    type: EventType
    """The type of the event. A change of the phase is a mark if a person or program asked for it.

    - `agent.created`: An agent was created.
    - `agent.changed`: Settings of an agent were changed; `fields` names them.
    - `agent.deleted`: An agent was deleted.
    - `agent.asleep`: An agent sleeps: its run is over, or what it waited for is gone.
    - `agent.holding`: A conversation has begun; the agent wakes when it pauses.
    - `agent.queued`: A start is due and waits for a run slot.
    - `agent.backing_off`: An agent waits for a retry.
    - `agent.quarantined`: Too many runs in a row have failed.
    - `agent.over_budget`: An agent, or its organization, has spent its budget of the day.
    - `agent.held_by_limits`: Something waits until an agent may wake again, or until its quiet hours end.
    - `agent.paused`: An agent was paused: nothing starts it.
    - `agent.unpaused`: The pause of an agent has ended.
    - `agent.stopping`: The active run was asked to stop.
    - `agent.stopped`: An agent was stopped: what is in its queue no longer starts it.
    - `agent.archived`: An agent was archived.
    - `agent.restored`: An archived agent was restored.
    - `agent.rescheduled`: The phase is the same, but what the agent waits for has changed.
    - `run.started`: A run has started; the agent is running.
    - `run.ended`: A run is over.
    - `notification.created`: A notification was added to an agent's queue.
    - `notification.changed`: A notification was changed; `fields` names what. An end of its clearing is
    such a change, too.
    - `notification.cleared`: A notification was cleared.
    - `notification.deleted`: A notification was deleted.
    - `message.received`: A message from a contact was stored.
    - `message.sent`: A message to a contact was sent.
    - `message.failed`: A message to a contact could not be sent.
    - `budget.reached`: The budget of an agent or of its organization for the day is spent.
    - `webhook.given_up`: A delivery was given up after its last attempt.
    - `webhook.disabled`: An event webhook that failed for five days was switched off.
    - `hook.ignored`: A delivery to an inbound hook did not fit the hook's `only_if`.
    - `hook.refused`: A delivery to an inbound hook was refused; of many, one a minute.
    - `schedule.created`: A schedule was created.
    - `schedule.changed`: Settings of a schedule were changed; `fields` names them. It is also paused when
    it ends.
    - `schedule.deleted`: A schedule was deleted.
    - `schedule.occurred`: A moment of a schedule has come; `outcome` says what became of it.
    - `approval.requested`: A person is asked: for an approval of a call of a tool, or for an answer. `kind`
    says which.
    - `approval.reminded`: A person was asked hours ago, or the wait for the decision ends soon.
    - `approval.decided`: A person has decided; `approved` says how, and `grant` names what it allows from
    now on.
    - `approval.expired`: Nobody has decided in time.
    - `approval.withdrawn`: No decision is needed any more: the agent or the tool has changed or is gone.
    - `organization.paused`: An organization was paused: none of its agents starts.
    - `organization.unpaused`: The pause of an organization has ended.
    - `audit`: An entry of the audit log that only admins may see: no stream, webhook or timeline shows it.
    """
    event: int
    """The id of the event."""
    resource: str | None
    """The notification, message or delivery that it is about; null if it is about the agent or a run."""
    run: str | None
    """The run that did it, or that it is about; null if there is none."""
    by: Actor
    """The one who did it."""
    data: dict[str, Any]
    """The data of the event, by its type."""
    title: str | None
    """The beginning of the notification's title; null if it is about something else, or no longer exists."""
    priority: Priority | None
    """The priority of the notification; null if it is about something else, or no longer exists.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    due_at: dt.datetime | None
    """When the notification, a reminder, falls due; null for all others."""
    cleared_at: dt.datetime | None
    """When the notification was cleared, which may be after the period; null if it is not."""
    cleared_by: Actor | None
    """The one who cleared it; null if nobody has, or if that was after the period."""


@dataclass(frozen=True, kw_only=True)
class Waiting(Answer):
    """A notification that waited during the whole period: it arrived before it, and was not cleared in it."""

    notification: str
    """The notification."""
    title: str
    """The beginning of its title."""
    priority: Priority
    """Its priority.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    created_at: dt.datetime
    """When it arrived, before the period."""
    due_at: dt.datetime | None
    """When it, a reminder, falls due, before the end of the period; null for all others."""
    cleared_at: dt.datetime | None
    """When it was cleared, after the period; null while it is not."""


@dataclass(frozen=True, kw_only=True)
class Ahead(Answer):
    """A moment that lies ahead, as far as it is decided at present."""

    at: dt.datetime
    """When it will be."""
    kind: AheadKind
    """What will be then.

    - `wake`: The agent wakes, unless something else wakes it earlier.
    - `retry`: The agent tries again after a failure or an interruption.
    - `reminder`: A reminder falls due.
    - `schedule`: A schedule comes.
    - `cap`: The longest sleep that the agent may take ends.
    - `budget_renewal`: The budget of the next day begins.
    """
    because: str
    """The reason, as a sentence."""
    resource: str | None
    """The reminder or the schedule; null for other kinds."""


@dataclass(frozen=True, kw_only=True)
class Preview(Answer):
    """An agent before and after what was asked. Nothing of it is stored."""

    now: Outlook
    """The agent at present."""
    then: Outlook
    """The agent after the change, when the last of the notifications has come, or at the moment `at`."""
    bounds_raised: str
    """The bounds of the agent that the change raises, such as `wakes_per_day=48`; "": none."""
    least_change: LeastChange | None
    """The answer to `wanted`; null if nothing was wanted."""


@dataclass(frozen=True, kw_only=True)
class Outlook(Answer):
    """An agent at one moment: where it is, why, and what wakes it next."""

    phase: Phase | None
    """The phase; null if it depends on a run, because no rule decides what a run does.

    - `asleep`: It sleeps until something wakes it.
    - `holding`: A conversation has begun; the agent is woken when no further message comes for the debounce
    window.
    - `queued`: It is due to start and waits for a free run slot.
    - `backing_off`: It waits for a retry, 1 s at first and twice as long each time, up to 300 s.
    - `quarantined`: Five runs in a row failed, or cleared none of its high-priority notifications; it rests
    for 15 minutes, or longer each time, up to 6 hours.
    - `paused`: It or its organization is paused; nothing starts.
    - `running`: A run is active.
    - `stopping`: Its run was asked to stop and has not ended yet.
    - `archived`: Nothing wakes it until it is restored.
    """
    why: str
    """Why the agent is in this phase, or why its phase is not known. Times are in UTC."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only something new can wake it, or while it runs."""


@dataclass(frozen=True, kw_only=True)
class LeastChange(Answer):
    """The smallest change of settings under which the notification would have woken the agent in time."""

    sentence: str
    """When the notification woke the agent, in the agent's time zone, or would have and with which settings;
    or that no such change would do.
    """
    patch: dict[str, Any]
    """The settings, named as in a PATCH of the agent, or `priorities` as in a rewind; empty if none."""
    at: dt.datetime | None
    """When the agent would have woken; null if no such change was found."""


@dataclass(frozen=True, kw_only=True)
class Rewind(Answer):
    """A recorded period of an agent, and the same period under other settings."""

    start: dt.datetime
    """The start of the period."""
    end: dt.datetime
    """The end of the period."""
    recorded: Course
    """What happened."""
    rewound: Course
    """What would have happened under the settings of the patch."""
    reproduced: int
    """How many of the recorded wakes follow from the present settings without the patch, at the same moment
    and for the same reason: all, unless settings have changed since or the clock was set.
    """
    summary: str
    """The difference as a sentence."""
    assumed: list[str]
    """What the answer assumes, as sentences."""


@dataclass(frozen=True, kw_only=True)
class Course(Answer):
    """What an agent did in a period."""

    wakes: int
    """How many runs started."""
    by_reason: dict[str, int]
    """How many runs started for each reason."""
    median_wait_seconds: float | None
    """How many seconds half of the high-priority notifications waited for a run at most, those of `waiting`
    until the end of the period; null: none came.
    """
    median_wait_by_source: dict[str, float]
    """The same for each source."""
    waiting: int
    """How many high-priority notifications still waited for a run at the end of the period."""
    cost_usd: float
    """The cost of the runs."""
    bands: list[RunBand]
    """The first 2,000 runs, by their start."""


@dataclass(frozen=True, kw_only=True)
class RunBand(Answer):
    """The time of a run."""

    start: dt.datetime
    """When the run started."""
    end: dt.datetime
    """When it ended; the end of the period if it was still active."""
    reason: str
    """The reason why it started."""


@dataclass(frozen=True, kw_only=True)
class TraceTranscript(Answer):
    """A trace as the conversation with its model, or a part of it."""

    trace: str
    """The trace; that of a run has the run's id."""
    agent: str
    """The agent that the trace is about, which may have been deleted."""
    name: str
    """The name of the trace."""
    started_at: dt.datetime
    """When the trace started."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    error: str
    """Why it failed; "" if it did not."""
    tools: list[ToolDefinitionOfTranscript]
    """The tools that the model could call, as the last call on this page that records them was sent them."""
    entries: list[TranscriptEntry]
    """The turns of the speakers in the order of time."""


@dataclass(frozen=True, kw_only=True)
class ToolDefinitionOfTranscript(Answer):
    """A tool that the model could call."""

    name: str
    """Its name."""
    description: str
    """Its description."""
    parameters: Any
    """The JSON Schema of its arguments."""


@dataclass(frozen=True, kw_only=True)
class TranscriptEntry(Answer):
    """One turn of a speaker."""

    role: Speaker
    """Who speaks.

    - `system`: The system prompt.
    - `user`: What the model was told: why the agent woke, what arrived during the run.
    - `assistant`: What the model answered: a text, calls of tools, or both.
    - `tool`: What a tool returned.
    """
    span: str
    """The span that records it."""
    at: dt.datetime
    """When the call of the model or the tool began."""
    duration_ms: int | None
    """How many milliseconds the call of the model or the tool took; null while it goes on, and for what a
    model was told.
    """
    text: str
    """The text that was spoken; "" if there is none."""
    reasoning: str
    """What the model thought before it answered, as far as its provider shows it; else ""."""
    tool_calls: list[CalledTool]
    """The tool calls that the model asked for."""
    tool: str
    """The name of the tool; "" if no tool speaks."""
    tool_call: str
    """The id of the tool call; "" if no tool speaks."""
    arguments: Any
    """The arguments of the tool's call, parsed if they are JSON; null if no tool speaks."""
    result: Any
    """What the tool returned; null if it failed, or if no tool speaks."""
    call: ModelCall | None
    """The call of the model; null if no model speaks."""
    error: str
    """Why the call of the model or the tool failed, at most 1,000 characters; "" if it did not."""


@dataclass(frozen=True, kw_only=True)
class CalledTool(Answer):
    """A tool call that a model asked for."""

    id: str
    """The id that the model gave the call."""
    name: str
    """The name of the tool."""
    arguments: Any
    """The arguments, parsed if they are JSON."""


@dataclass(frozen=True, kw_only=True)
class ModelCall(Answer):
    """One call of a model."""

    provider: str
    """The provider; "" if it is not recorded."""
    model: str
    """The model as the provider names it, or else as it was asked for; "" if neither is recorded."""
    finish_reason: str
    """Why the answer ended, in the terms of the provider; "" if it did not end."""
    input_tokens: int | None
    """The tokens that the model read; null if they are not recorded."""
    output_tokens: int | None
    """The tokens that the model wrote; null if they are not recorded."""
    cached_tokens: int | None
    """The part of `input_tokens` that came from the provider's cache; null if it is not recorded."""
    cost_usd: float | None
    """What the call cost in US dollars; null if it is not recorded, or if the model has no known price."""


@dataclass(frozen=True, kw_only=True)
class Usage(Answer):
    """The sums over the calls of an agent, in total and by model."""

    input_tokens: int
    """Tokens sent to the model, those from a cache included."""
    output_tokens: int
    """Tokens that the model produced."""
    cached_tokens: int
    """The part of the input tokens that came from a cache."""
    total_cost_usd: float
    """The cost in US dollars; calls without a known price count as 0."""
    llm_calls: int
    """The number of calls."""
    priced: bool
    """Whether the cost of all these calls is known; false if some count as 0 because their price is not."""
    agent_id: str
    """The id of the agent."""
    agent_name: str
    """The name of the agent, which may have been deleted."""
    start_date: dt.datetime
    """The start of the period, itself included."""
    end_date: dt.datetime
    """The end of the period, itself excluded."""
    model_count: int
    """The number of models that were called."""
    model_breakdown: dict[str, ModelUsage]
    """The sums by the name of the model, for the 500 most expensive models."""


@dataclass(frozen=True, kw_only=True)
class ModelUsage(Answer):
    """Sums over calls of one model."""

    input_tokens: int
    """Tokens sent to the model, those from a cache included."""
    output_tokens: int
    """Tokens that the model produced."""
    cached_tokens: int
    """The part of the input tokens that came from a cache."""
    total_cost_usd: float
    """The cost in US dollars; calls without a known price count as 0."""
    llm_calls: int
    """The number of calls."""
    priced: bool
    """Whether the cost of all these calls is known; false if some count as 0 because their price is not."""


@dataclass(frozen=True, kw_only=True)
class UsageRecord(Answer):
    """One call of a model."""

    id: str
    """Chosen by the service."""
    agent: str
    """The agent that the call was made for."""
    trace: str | None
    """The trace of the call; null if there is none."""
    model: str
    """The name of the model, such as `openai/gpt-5`."""
    input_tokens: int
    """Tokens sent to the model, those from a cache included."""
    output_tokens: int
    """Tokens that the model produced."""
    cached_tokens: int
    """The part of the input tokens that came from a cache."""
    cost_usd: float
    """The cost in US dollars, with six decimals at most; 0 also if it is not known."""
    priced: bool
    """Whether the cost is known; false if none was given and the service has no price of the model."""
    occurred_at: dt.datetime
    """When the call was made."""


@dataclass(frozen=True, kw_only=True)
class DailyUsage(Answer):
    """The sums over model calls by UTC day and model."""

    start_date: dt.datetime
    """The start of the period, itself included."""
    end_date: dt.datetime
    """The end of the period, itself excluded."""
    total: ModelUsage
    """The sums over all calls."""
    model_count: int
    """The number of models that were called."""
    models: list[NamedUsage]
    """The sums of each of the 10 most expensive models, and at the end those of all others together."""
    days: list[DayUsage]
    """The days with calls, the earliest first."""
    top_agents: list[AgentCost]
    """The most expensive agents, as many as `top_agents` of the query asks for."""
    agent_max_cost_usd_per_day: float | None
    """The cap of the agent or its template for a day; null: it has none, or no agent was asked for."""
    organization_max_cost_usd_per_day: float | None
    """The cap of the organization for a day; null: it has none, or the answer is about several organizations.
    """


@dataclass(frozen=True, kw_only=True)
class NamedUsage(Answer):
    """Sums over the calls of one model, or of all models that are not listed one by one."""

    input_tokens: int
    """Tokens sent to the model, those from a cache included."""
    output_tokens: int
    """Tokens that the model produced."""
    cached_tokens: int
    """The part of the input tokens that came from a cache."""
    total_cost_usd: float
    """The cost in US dollars; calls without a known price count as 0."""
    llm_calls: int
    """The number of calls."""
    priced: bool
    """Whether the cost of all these calls is known; false if some count as 0 because their price is not."""
    model: str | None
    """The name of the model; null: all models beyond the 10 most expensive ones, together."""


@dataclass(frozen=True, kw_only=True)
class DayUsage(Answer):
    """The sums of one day."""

    day: str
    """The day in UTC, such as `2026-11-22`."""
    by_model: list[ModelUsage | None]
    """The sums of each model, in the order of `models`; null: there was no call."""


@dataclass(frozen=True, kw_only=True)
class AgentCost(Answer):
    """What one agent cost."""

    agent: str
    """The id of the agent, which may have been deleted."""
    name: str
    """The name of the agent; "" if it is not known any more."""
    total_cost_usd: float
    """The cost in US dollars; calls without a known price count as 0."""
    llm_calls: int
    """The number of calls."""


@dataclass(frozen=True, kw_only=True)
class Notification(Answer):
    """An entry in an agent's queue: something that the agent should look at."""

    id: str
    """Chosen by the service; the agent's tool `clear_notification` takes it."""
    agent: str
    """The agent in whose queue it is."""
    source: Source
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
    title: str
    """One line that tells the agent what it is about."""
    body: str
    """The details, such as the text of a message; "" if there are none."""
    priority: Priority
    """Whether it wakes the agent and keeps it from sleeping until it is cleared.

    - `high`: Wakes the agent, which can sleep again only when the notification is cleared.
    - `low`: Waits until the agent is awake for another reason, and does not keep it awake.
    """
    created_at: dt.datetime
    """When it was created."""
    scheduled_for: dt.datetime | None
    """When it becomes active: until then the agent's own tool does not list it, and at that time a high one
    wakes the agent. null or a time in the past: at once.
    """
    cleared: bool
    """Whether it was dismissed; a cleared one neither wakes the agent nor keeps it awake."""
    cleared_at: dt.datetime | None
    """When it was cleared; null while it is not."""
    urgent: bool
    """Whether it wakes the agent in its quiet hours, too, and when it has woken as often as it may. Only
    people and keys create such notifications, all of them high.
    """


@dataclass(frozen=True, kw_only=True)
class Cleared(Answer):
    """The result of clearing."""

    cleared: int
    """How many notifications this request cleared; those that were cleared before do not count."""


@dataclass(frozen=True, kw_only=True)
class WholeSchedule(Answer):
    """A schedule with its next moments."""

    id: str
    """Chosen by the service; it is the `source_id` of the notifications."""
    agent: str
    """The agent that it notifies."""
    name: str
    """Its name, unique for the agent."""
    title: str
    """The title of the notifications."""
    body: str
    """Their body, at most 10,000 characters. What was late, missed or merged stands in a line above it."""
    priority: Priority
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
    starts_at: dt.datetime | None
    """It does not occur before; null: from the creation on. Without an offset it is in the agent's zone."""
    ends_at: dt.datetime | None
    """It does not occur after; null: it has no end. Without an offset it is in the agent's zone."""
    max_occurrences: int | None
    """How often it notifies in all, without those on request; null: without end."""
    late_seconds: int | None
    """An occurrence that is later than this and a minute is dropped, with a record. null: it notifies however
    late.
    """
    if_uncleared: IfUncleared
    """What happens when its last notification still waits.

    - `merge`: That notification is updated: how many occurrences it stands for, and the latest of them.
    - `add`: Another one is added.
    """
    only_if: OnlyIf
    """The condition on which it notifies.

    - `always`: It always does.
    - `waiting`: Only if another uncleared notification of the agent waits, whatever its priority.
    """
    jitter_seconds: int
    """It occurs up to this much later than planned, always by the same time, so that many do not coincide.
    """
    check: Check | None
    """A tool that is called each time, without a model; only its answer decides whether it notifies, until
    `ends_at`, at most 30 days ahead. null: there is no check.
    """
    paused: bool
    """Whether its occurrences pass without a notification."""
    paused_reason: PausedReason
    """Why they do; "" if it is not paused.

    - ``: It is not paused.
    - `manual`: A request paused it. Its occurrences pass, and are recorded.
    - `agent_archived`: Its agent is archived. Its occurrences pass until the agent is restored.
    - `timezone`: Its time zone is not known any more, so nobody can say when it comes next.
    - `ended`: It has no further occurrence.
    """
    says: str
    """When it occurs, in words."""
    effective_timezone: str
    """The time zone that counts: its own, or that of its agent."""
    next_at: dt.datetime | None
    """When it is planned next; null while it is paused."""
    last_at: dt.datetime | None
    """Its last occurrence; null before the first."""
    last_outcome: OccurrenceOutcome | None
    """What became of that; null before the first.

    - `fired`: It has put a notification into the queue.
    - `merged`: It has updated the notification that still waited.
    - `late`: It was dropped, because it was later than `late_seconds`.
    - `paused`: It passed while the schedule was paused or its agent archived.
    - `nothing_waiting`: It passed, because nothing waited.
    - `unchanged`: Its check found nothing to tell.
    - `failed`: Its check failed. The third time in a row puts a notification of low priority into the
    queue.
    - `manual`: A request has made it.
    """
    last_notification: str | None
    """The last notification that it made; null before the first."""
    missed_count: int
    """How many occurrences were missed, and told of by a later one; of one outage, at most 100 count."""
    created_at: dt.datetime
    """When it was created."""
    created_by: Actor
    """Who created it."""
    upcoming: list[Moment]
    """The next five moments as planned; none while it is paused."""


@dataclass(frozen=True, kw_only=True)
class Check(Answer):
    """A call of a tool that decides whether a schedule notifies."""

    tool: str
    """The name by which the agent calls the tool, which must be `idempotent`."""
    arguments: dict[str, Any]
    """The arguments of the call, at most 10,000 bytes of JSON."""
    wake_if: WakeIf
    """The answer that notifies.

    - `changed`: One that differs from the last. The first only begins the comparison.
    - `nonempty`: One that differs from the last and is neither null nor an empty text, list or object.
    - `error`: The first error after the start or after an answer.
    """


@dataclass(frozen=True, kw_only=True)
class Moment(Answer):
    """A moment that lies ahead."""

    at: dt.datetime
    """The moment in UTC."""
    local: str
    """The same moment in the zone of the schedule, with its offset: `2026-11-24T09:00:00+01:00`."""


@dataclass(frozen=True, kw_only=True)
class Schedule(Answer):
    """A schedule: each time it occurs, it puts a notification into the queue of its agent."""

    id: str
    """Chosen by the service; it is the `source_id` of the notifications."""
    agent: str
    """The agent that it notifies."""
    name: str
    """Its name, unique for the agent."""
    title: str
    """The title of the notifications."""
    body: str
    """Their body, at most 10,000 characters. What was late, missed or merged stands in a line above it."""
    priority: Priority
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
    starts_at: dt.datetime | None
    """It does not occur before; null: from the creation on. Without an offset it is in the agent's zone."""
    ends_at: dt.datetime | None
    """It does not occur after; null: it has no end. Without an offset it is in the agent's zone."""
    max_occurrences: int | None
    """How often it notifies in all, without those on request; null: without end."""
    late_seconds: int | None
    """An occurrence that is later than this and a minute is dropped, with a record. null: it notifies however
    late.
    """
    if_uncleared: IfUncleared
    """What happens when its last notification still waits.

    - `merge`: That notification is updated: how many occurrences it stands for, and the latest of them.
    - `add`: Another one is added.
    """
    only_if: OnlyIf
    """The condition on which it notifies.

    - `always`: It always does.
    - `waiting`: Only if another uncleared notification of the agent waits, whatever its priority.
    """
    jitter_seconds: int
    """It occurs up to this much later than planned, always by the same time, so that many do not coincide.
    """
    check: Check | None
    """A tool that is called each time, without a model; only its answer decides whether it notifies, until
    `ends_at`, at most 30 days ahead. null: there is no check.
    """
    paused: bool
    """Whether its occurrences pass without a notification."""
    paused_reason: PausedReason
    """Why they do; "" if it is not paused.

    - ``: It is not paused.
    - `manual`: A request paused it. Its occurrences pass, and are recorded.
    - `agent_archived`: Its agent is archived. Its occurrences pass until the agent is restored.
    - `timezone`: Its time zone is not known any more, so nobody can say when it comes next.
    - `ended`: It has no further occurrence.
    """
    says: str
    """When it occurs, in words."""
    effective_timezone: str
    """The time zone that counts: its own, or that of its agent."""
    next_at: dt.datetime | None
    """When it is planned next; null while it is paused."""
    last_at: dt.datetime | None
    """Its last occurrence; null before the first."""
    last_outcome: OccurrenceOutcome | None
    """What became of that; null before the first.

    - `fired`: It has put a notification into the queue.
    - `merged`: It has updated the notification that still waited.
    - `late`: It was dropped, because it was later than `late_seconds`.
    - `paused`: It passed while the schedule was paused or its agent archived.
    - `nothing_waiting`: It passed, because nothing waited.
    - `unchanged`: Its check found nothing to tell.
    - `failed`: Its check failed. The third time in a row puts a notification of low priority into the
    queue.
    - `manual`: A request has made it.
    """
    last_notification: str | None
    """The last notification that it made; null before the first."""
    missed_count: int
    """How many occurrences were missed, and told of by a later one; of one outage, at most 100 count."""
    created_at: dt.datetime
    """When it was created."""
    created_by: Actor
    """Who created it."""


@dataclass(frozen=True, kw_only=True)
class SchedulePreview(Answer):
    """When a schedule would occur."""

    says: str
    """When it would occur, in words."""
    hint: str
    """A warning, if the expression may mean something else than is expected; else ""."""
    upcoming: list[Moment]
    """The next moments."""


@dataclass(frozen=True, kw_only=True)
class Occurrence(Answer):
    """A moment of a schedule, and what became of it."""

    schedule: str
    """The schedule."""
    occurs_at: dt.datetime
    """The moment that was planned, or that of the request."""
    outcome: OccurrenceOutcome
    """What became of it.

    - `fired`: It has put a notification into the queue.
    - `merged`: It has updated the notification that still waited.
    - `late`: It was dropped, because it was later than `late_seconds`.
    - `paused`: It passed while the schedule was paused or its agent archived.
    - `nothing_waiting`: It passed, because nothing waited.
    - `unchanged`: Its check found nothing to tell.
    - `failed`: Its check failed. The third time in a row puts a notification of low priority into the
    queue.
    - `manual`: A request has made it.
    """
    decided_at: dt.datetime
    """When that was decided."""
    missed_count: int
    """How many earlier moments it stands for."""
    notification: str | None
    """The notification that it made or updated; null without one."""
    run: str | None
    """The run in which the notification was cleared; null while it waits, and if no run did it."""


@dataclass(frozen=True, kw_only=True)
class Approval(Answer):
    """A call or a question of an agent whose answer comes later."""

    id: str
    """The id of the call: its tool gets it as `tool_call_id`."""
    kind: CallKind
    """What it waits for.

    - `approval`: A person allows or denies the call of a tool.
    - `question`: A person answers a question of the agent.
    - `result`: A tool that was called sends its result later.
    - `input`: A person answers a question of the tool, which then goes on.
    """
    state: CallState
    """How far it is.

    - `pending`: A person is asked.
    - `due`: It was decided, and the service is about to make the call, or to go on with it.
    - `calling`: The service makes the call.
    - `waiting`: The tool was called, and sends its result later.
    - `done`: The agent was told the result or the answer.
    - `failed`: The call was made and failed, or nobody knows whether it had an effect.
    - `denied`: A person has denied it, or declined to answer.
    - `expired`: Nothing came in time.
    - `withdrawn`: The agent or the tool has changed or is gone, so nobody needs to decide any more.
    """
    agent: str
    """The agent that made the call."""
    agent_name: str
    """The name of the agent."""
    run: str | None
    """The run that made the call, whose trace says why; null if a client made it."""
    adapter: str | None
    """The adapter of the tool; null for a question of the agent, or if the tool was deleted."""
    tool: str
    """The name of the tool; `ask_person` for a question of the agent."""
    arguments: Any
    """The arguments of the call, exactly as they were given."""
    digest: str
    """A SHA-256 digest of tool and arguments, in hexadecimal digits."""
    question: str
    """What a person is asked; "" for an approval."""
    answer_schema: Any
    """The JSON Schema that an answer must fit; null: any answer, or no question."""
    contact: str | None
    """The contact whom the agent asks; null: whoever may decide."""
    created_at: dt.datetime
    """When the call was made."""
    expires_at: dt.datetime | None
    """When the wait ends without a decision or a result; null: never."""
    reminded_at: dt.datetime | None
    """When `approval.reminded` last told of it; null: not yet."""
    approvers: Role
    """The lowest role that may decide, as the agent's template says. API keys and links act as admins.

    - `owner`: May do everything. Every organization keeps at least one owner.
    - `admin`: May do everything but make, change or remove owners; API keys have this role.
    - `member`: May do everything but manage API keys, invites, memberships and the organization's settings.
    """
    approval: ApprovalMode | ApprovalWhen | None
    """Which calls of the tool wait, as it says now: with `first_use`, an approval without a grant of its own
    lets all later calls of the agent pass. null for a question of the agent, or if the tool was deleted.

    - `never`: None.
    - `always`: All.
    - `first_use`: All of an agent until one of them is approved, which grants the others.
    """
    decided_at: dt.datetime | None
    """When a person decided; null: not yet, or there was nothing to decide."""
    decided_by: Actor | None
    """Who decided; null if nobody has."""
    note: str
    """A text of the person who decided, which the agent reads."""
    approved_arguments: Any
    """The arguments as that person has edited them; null: they are as the agent gave them."""
    answer: Any
    """The answer of that person; null if there is none."""
    ended_at: dt.datetime | None
    """When the agent was told the outcome; null: it still waits."""
    outcome: str
    """A sentence that says how it ended; "" while it has not."""


@dataclass(frozen=True, kw_only=True)
class Grant(Answer):
    """Calls of one tool by one agent that need no decision. `used_count` says how many have passed."""

    id: str
    """Chosen by the service."""
    agent: str
    """The agent whose calls it covers."""
    agent_name: str
    """The name of that agent."""
    tool_id: str
    """The tool whose calls it covers."""
    tool: str
    """The name of that tool."""
    call: str
    """The approval with which it was given."""
    arguments: Any
    """`"exact"`: those that were approved then. Or the JSON Schema that arguments must fit; {}: any."""
    until: dt.datetime | None
    """When it ends; null: at no time."""
    max_uses: int | None
    """After how many calls it ends; null: after none."""
    used_count: int
    """How many calls it has let pass."""
    last_used_at: dt.datetime | None
    """When it last did; null: not yet."""
    is_for_present_tool: bool
    """false: the tool has changed since what a person saw of it, so the grant covers nothing."""
    created_at: dt.datetime
    """When it was given."""
    created_by: Actor
    """Who gave it."""
    revoked_at: dt.datetime | None
    """When it was revoked; null: it was not."""
    revoked_by: Actor | None
    """Who revoked it; null if nobody has."""


@dataclass(frozen=True, kw_only=True)
class Contact(Answer):
    """A person that agents are in touch with."""

    id: str
    """Agents name the contact by this id when they send a message."""
    organization: str
    """The organization that the contact belongs to."""
    agent: str | None
    """The agent that the contact is for; null: all agents of the organization."""
    name: str
    """Shown in the title of the notification about a message; "" if it is not known."""
    email: str
    """An e-mail address, which no other contact of the organization has; "" if there is none."""
    phone: str
    """A phone number in E.164 form, such as `+4312345678`, or a short code, which no other contact has; "" if
    there is none.
    """
    metadata: Any
    """Any JSON value of yours but null; the service only stores it."""
    other_addresses: list[str]
    """Up to 20 further addresses that messages of the contact come from, in the form in which they are
    compared.
    """
    created_at: dt.datetime
    """When the contact was created."""


@dataclass(frozen=True, kw_only=True)
class Message(Answer):
    """A message between an agent and a contact."""

    id: str
    """Chosen by the service; the agent's tool `open_sms_attachment` takes it."""
    agent: str
    """The agent that wrote the message or gets it."""
    contact: str | None
    """The contact at the other end; null if it is not known or was deleted."""
    channel: Channel
    """The way that the message travels, and the source of an inbound message's notification.

    - `email`: E-mail.
    - `sms`: SMS.
    - `mms`: iMessage or RCS.
    - `sms_provider_a`: SMS through a further provider.
    - `sms_provider_b`: SMS through another further provider.
    """
    direction: Direction
    """Whether the agent gets the message or wrote it.

    - `inbound`: From a contact to the agent.
    - `outbound`: From the agent to a contact.
    """
    subject: str
    """One line, for channels that have subjects; else ""."""
    body: str
    """The text; "" if there are only attachments."""
    address: str
    """The address that an inbound message came from, or an outbound one went to; "" if it is not known."""
    attachments: list[Attachment | UploadedAttachment]
    """Files that belong to the message: those that were uploaded with it, then those elsewhere."""
    status: MessageStatus
    """How far the message has come; the tool of its channel may set it.

    - `received`: An inbound message; its default.
    - `queued`: An outbound message that is not yet known to be sent; its default.
    - `sent`: An outbound message that was handed to its channel.
    - `failed`: An outbound message that was not sent, also because no tool of the agent serves its channel.
    """
    error: str
    """Why it was not sent, as far as that is known; "" for any other message."""
    needs_person: bool
    """Whether it was not sent, and neither sent again nor dismissed since."""
    run: str | None
    """The run that wrote it; null if there was none."""
    created_at: dt.datetime
    """When the message was stored."""


@dataclass(frozen=True, kw_only=True)
class Attachment(Answer):
    """A file elsewhere that belongs to a message; the service does not store it."""

    name: str
    """The file name; "" if it is not known."""
    content_type: str
    """A media type such as `image/png`; "" if it is not known."""
    url: str
    """The http or https address of the file, which the agent's tool `open_sms_attachment` shows."""


@dataclass(frozen=True, kw_only=True)
class UploadedAttachment(Answer):
    """A file that was uploaded with a message."""

    id: str
    """Chosen by the service; `/api/defaults/attachments/{id}/` answers with the content."""
    name: str
    """The name that the file was sent with, without folders; "" if it had none."""
    content_type: str
    """The media type that was sent, or `application/octet-stream` if the content contradicts it."""
    url: str
    """The path in this API where the file can be downloaded, with the usual credentials."""
    size: int
    """The number of bytes."""


@dataclass(frozen=True, kw_only=True)
class Document(Answer):
    """A text that agents keep or are given."""

    id: str
    """Chosen by the service."""
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
    created_at: dt.datetime
    """When the document was created."""
    updated_at: dt.datetime
    """When the document was last changed; at first the same as `created_at`."""
    path: str | None
    """Where the agent's tool `memory` finds the document, such as `/memories/people/ada.md`; null: nowhere. It
    needs an `agent`, which may have one document at each path.
    """
    version: int
    """The number of the current version: a change of title, content or content type adds 1."""
    author: str
    """Who wrote the current version: `user:`, `key:` or `agent:` and the id; "" if it is not known."""
    run: str | None
    """The run in which the agent wrote the current version; null if no run did."""
    deleted_at: dt.datetime | None
    """When the agent deleted the document; null if it did not. Reverting it to a version restores it."""


@dataclass(frozen=True, kw_only=True)
class DocumentHit(Answer):
    """A document that a search has found, without its content."""

    id: str
    """The id of the document."""
    agent: str | None
    """The agent that the document is for; null: all agents of the organization."""
    project: str | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: str
    """The title of the document."""
    path: str | None
    """Where the agent's tool `memory` finds the document; null: nowhere."""
    content_type: str
    """The media type of the content."""
    size_bytes: int
    """The length of the content in UTF-8."""
    version: int
    """The number of the current version."""
    created_at: dt.datetime
    """When the document was created."""
    updated_at: dt.datetime
    """When the document was last changed."""
    rank: float
    """How well the document fits the query, to compare with the others; words of the title count more."""
    snippet: str
    """The places of the content where the words are, which are marked by `**`."""


@dataclass(frozen=True, kw_only=True)
class Version(Answer):
    """A version of a document or of a system prompt, without its content."""

    number: int
    """1 for the first version; each change adds 1."""
    title: str
    """The title of the document in this version; "" for a prompt."""
    content_type: str
    """The media type in this version."""
    size_bytes: int
    """The length of the content in UTF-8."""
    author: str
    """Who wrote this version: `user:`, `key:`, `agent:` or `run:` and the id; "" if it is not known."""
    run: str | None
    """The run in which an agent wrote this version; null if no run did."""
    created_at: dt.datetime
    """When this version was written."""


@dataclass(frozen=True, kw_only=True)
class FullVersion(Answer):
    """A version of a document or of a system prompt with its content."""

    number: int
    """1 for the first version; each change adds 1."""
    title: str
    """The title of the document in this version; "" for a prompt."""
    content_type: str
    """The media type in this version."""
    size_bytes: int
    """The length of the content in UTF-8."""
    author: str
    """Who wrote this version: `user:`, `key:`, `agent:` or `run:` and the id; "" if it is not known."""
    run: str | None
    """The run in which an agent wrote this version; null if no run did."""
    created_at: dt.datetime
    """When this version was written."""
    content: str
    """The text of this version."""


@dataclass(frozen=True, kw_only=True)
class Project(Answer):
    """A piece of work, by which documents can be grouped."""

    id: str
    """Chosen by the service."""
    agent: str | None
    """The agent that the project is for; null: all agents of the organization."""
    name: str
    """One line; several projects may have the same."""
    description: str
    """Any text; "" if there is none."""
    status: ProjectStatus
    """The progress of the work. It has no effect on agents.

    - `active`: Work goes on; the default.
    - `done`: The work is done.
    - `archived`: Kept for reference.
    """
    created_at: dt.datetime
    """When the project was created."""
    updated_at: dt.datetime
    """When the project was last changed; at first the same as `created_at`."""


@dataclass(frozen=True, kw_only=True)
class Trace(Answer):
    """A trace without its spans."""

    id: str
    """That of the run, if the service ran it; else chosen by its creator or the service."""
    name: str
    """What was done; `invoke_agent <name>` for a run of the service."""
    agent: str
    """The agent that the trace is about, which may have been deleted."""
    started_at: dt.datetime
    """When it started."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value."""


@dataclass(frozen=True, kw_only=True)
class FullTrace(Answer):
    """A trace with one page of its spans."""

    id: str
    """That of the run, if the service ran it; else chosen by its creator or the service."""
    name: str
    """What was done; `invoke_agent <name>` for a run of the service."""
    agent: str
    """The agent that the trace is about, which may have been deleted."""
    started_at: dt.datetime
    """When it started."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value."""
    spans: list[SpanOfTrace]
    """Spans, oldest first, without their metadata unless `expand` asks for it."""
    total_spans: int
    """The number of all spans of the trace."""


@dataclass(frozen=True, kw_only=True)
class SpanOfTrace(Answer):
    """A span on the page of its trace."""

    id: str
    """Chosen by its creator or the service."""
    trace: str
    """The trace that the span belongs to."""
    name: str
    """What was done, such as `chat gpt-5` or `execute_tool sleep`."""
    started_at: dt.datetime
    """When it started."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    has_error: bool
    """Whether it has an error."""
    parent: str | None
    """The span of the same trace that this one is a part of; null if it is a part of none."""
    span_type: str
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    input_tokens: int | None
    """The tokens that the model read, `gen_ai.usage.input_tokens` of its metadata; null if that does not tell.
    """
    output_tokens: int | None
    """The tokens that the model wrote, `gen_ai.usage.output_tokens`; null if it does not tell."""
    cached_tokens: int | None
    """The input tokens that the model read from a cache, `gen_ai.usage.cache_read.input_tokens`; null if it
    does not tell.
    """
    cost_usd: float | None
    """What the model call cost, `hostsvc.usage.cost_usd`; null if it does not tell, or no price is known."""
    metadata: Any = None
    """Any JSON value; only with `expand=metadata`."""


@dataclass(frozen=True, kw_only=True)
class TracePage(Answer):
    """A page of traces."""

    results: list[TraceSummary]
    """The traces, last started first."""
    pagination: Pagination
    """Which part of all traces this is."""


@dataclass(frozen=True, kw_only=True)
class TraceSummary(Answer):
    """A trace in a list."""

    id: str
    """That of the run, if the service ran it; else chosen by its creator or the service."""
    name: str
    """What was done; `invoke_agent <name>` for a run of the service."""
    agent: str
    """The agent that the trace is about, which may have been deleted."""
    started_at: dt.datetime
    """When it started."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value."""
    agent_name: str
    """The name of the agent; "" if its data is deleted."""
    template_name: str
    """The name of the template that the agent has now; "" if it has none."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    span_count: int
    """The number of its spans."""
    has_error: bool
    """Whether the trace or one of its spans has an error."""


@dataclass(frozen=True, kw_only=True)
class Pagination(Answer):
    """Which part of all traces a page shows."""

    total_count: int
    """How many traces fit the filters."""
    limit: int
    """The `limit` of the request."""
    offset: int
    """The `offset` of the request."""
    has_more: bool
    """Whether there are more traces after this page."""


@dataclass(frozen=True, kw_only=True)
class Waterfall(Answer):
    """A page of the spans of a trace in short."""

    started_at: dt.datetime
    """When the trace started."""
    ended_at: dt.datetime | None
    """When the trace ended; null while it is open."""
    total_spans: int
    """The number of all spans of the trace."""
    spans: SpanColumns
    """Spans, oldest first."""


@dataclass(frozen=True, kw_only=True)
class SpanColumns(Answer):
    """Spans in columns: what stands at the same place of each list belongs to one span."""

    ids: list[str]
    """The ids of the spans."""
    parents: list[str | None]
    """The spans of the same trace that these are parts of; null if one is a part of none."""
    names: list[str]
    """What was done, such as `chat gpt-5`."""
    span_types: list[str]
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    starts_us: list[int]
    """Microseconds from `started_at` to the starts of the spans; negative for earlier ones."""
    durations_us: list[int | None]
    """Microseconds from the starts to the ends; null while a span is open."""
    has_errors: list[bool]
    """Whether the spans have errors."""
    input_tokens: list[int | None]
    """The tokens that models read; null if a span does not tell."""
    output_tokens: list[int | None]
    """The tokens that models wrote; null if a span does not tell."""
    cached_tokens: list[int | None]
    """The input tokens that models read from a cache; null if a span does not tell."""
    costs_usd: list[float | None]
    """What the model calls cost; null if a span does not tell."""


@dataclass(frozen=True, kw_only=True)
class Span(Answer):
    """A step of a trace, such as a call of a model or a tool."""

    id: str
    """Chosen by its creator or the service."""
    trace: str
    """The trace that the span belongs to."""
    name: str
    """What was done, such as `chat gpt-5` or `execute_tool sleep`."""
    started_at: dt.datetime
    """When it started."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    has_error: bool
    """Whether it has an error."""
    parent: str | None
    """The span of the same trace that this one is a part of; null if it is a part of none."""
    span_type: str
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    input_tokens: int | None
    """The tokens that the model read, `gen_ai.usage.input_tokens` of its metadata; null if that does not tell.
    """
    output_tokens: int | None
    """The tokens that the model wrote, `gen_ai.usage.output_tokens`; null if it does not tell."""
    cached_tokens: int | None
    """The input tokens that the model read from a cache, `gen_ai.usage.cache_read.input_tokens`; null if it
    does not tell.
    """
    cost_usd: float | None
    """What the model call cost, `hostsvc.usage.cost_usd`; null if it does not tell, or no price is known."""


@dataclass(frozen=True, kw_only=True)
class FullSpan(Answer):
    """A span with its error and metadata."""

    id: str
    """Chosen by its creator or the service."""
    trace: str
    """The trace that the span belongs to."""
    name: str
    """What was done, such as `chat gpt-5` or `execute_tool sleep`."""
    started_at: dt.datetime
    """When it started."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    has_error: bool
    """Whether it has an error."""
    parent: str | None
    """The span of the same trace that this one is a part of; null if it is a part of none."""
    span_type: str
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    ended_at: dt.datetime | None
    """When it ended; null while it is open."""
    input_tokens: int | None
    """The tokens that the model read, `gen_ai.usage.input_tokens` of its metadata; null if that does not tell.
    """
    output_tokens: int | None
    """The tokens that the model wrote, `gen_ai.usage.output_tokens`; null if it does not tell."""
    cached_tokens: int | None
    """The input tokens that the model read from a cache, `gen_ai.usage.cache_read.input_tokens`; null if it
    does not tell.
    """
    cost_usd: float | None
    """What the model call cost, `hostsvc.usage.cost_usd`; null if it does not tell, or no price is known."""
    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value, at most `limits.span_metadata_bytes` (1 MiB) as JSON; in spans of the service attributes
    by the names of OpenTelemetry.
    """


@dataclass(frozen=True, kw_only=True)
class Events(Answer):
    """Some events, and where to go on."""

    events: list[Event]
    """The events, oldest first."""
    after: int
    """The cursor to go on with, which may be greater than the id of the last event."""
    reset: bool
    """Whether these do not follow your cursor without a gap: the log no longer has the events after it."""


@dataclass(frozen=True, kw_only=True)
class Event(Answer):
    """A change, as the event log has it."""

    id: int | None
    """Its position, which is the cursor to go on after it; null for `model.delta`, which is not stored."""
    type: str
    """The kind of change, such as `run.ended`. docs/events.md lists all of them."""
    at: dt.datetime
    """When it happened."""
    organization: str
    """The organization of the agent."""
    agent: str | None
    """The agent, which may have been deleted; null if it concerns the whole organization."""
    run: str | None
    """The run that it belongs to; null if none does."""
    resource_id: str | None
    """The notification, message, schedule, parked call or delivery that it is about; null if it is about the
    agent or the run.
    """
    by: Actor
    """Who made the change."""
    data: dict[str, Any]
    """What has changed, with other fields for each type."""
    resource: Agent | Run | Notification | Message | Delivery | None
    """What the event is about, as it is when the event is sent; null if that is gone."""


@dataclass(frozen=True, kw_only=True)
class Ticket(Answer):
    """A ticket for event streams."""

    ticket: str | None
    """The value of `?ticket=`; it can open streams until `expires_at`, and nothing else. null in a repeated
    answer.
    """
    expires_at: dt.datetime
    """When it can no longer open a stream; streams that are open go on."""


@dataclass(frozen=True, kw_only=True)
class Alive(Answer):
    """A sign of life."""

    status: str
    """Always `ok`."""


@dataclass(frozen=True, kw_only=True)
class Ready(Answer):
    """The state of a node that can serve."""

    state: ServiceState
    """`ready`, or `degraded` with a problem that does not keep it from serving.

    - `ready`: All is well.
    - `draining`: It ends: it starts no runs and waits for those that are active.
    - `degraded`: It serves with a problem, or cannot serve; `reasons` say which.
    """
    reasons: list[str]
    """A sentence for each problem; none if all is well."""


@dataclass(frozen=True, kw_only=True)
class Status(Answer):
    """The whole service in numbers."""

    sentence: str
    """How the service is, and how busy, as sentences."""
    service: Service
    """The node that answers, and its state."""
    versions: Versions
    """What the service is made of."""
    nodes: list[Node]
    """The nodes that live, by number. Numbers without a node are sums over them, of lateness the worst."""
    ended_nodes: list[EndedNode]
    """The nodes that have ended within a day, in order or found dead, the last one first, at most 100."""
    phases: dict[str, int]
    """How many agents of all organizations are in each phase; one without any is left out."""
    oldest_uncleared_high: Oldest | None
    """The longest uncleared notification and its agent; null if there is none."""
    failing_webhooks: int
    """How many event webhooks fail, or were switched off by the service."""
    forgotten: list[Forgotten]
    """Agents that nothing will start although they have work; there should be none."""
    harness: HarnessStatus
    """How runs are executed."""
    supervisors: Supervisors
    """The supervisors in memory."""
    quarantined: list[QuarantinedAgent]
    """At most 20 agents in quarantine, by id, as read one scan interval ago; `supervisors` counts all."""
    agents: Agents
    """The agents by status, counted at most one scan interval ago."""
    runs: Runs
    """The run slots."""
    timers: Timers
    """The moments at which agents must act next."""
    oldest_uncleared_high_seconds: float | None
    """Seconds since the longest active notification of all agents became active; null if none is active."""
    loop_lag_ms: Spread
    """How late the event loops wake up: the worst node's."""
    database: PoolSize
    """The connections to the database."""
    outbox: OutboxSize
    """The webhooks that are pending or were given up."""


@dataclass(frozen=True, kw_only=True)
class Service(Answer):
    """The node that answers."""

    node: int
    """The number of the node."""
    version: str
    """The version of the service that it is."""
    started_at: dt.datetime
    """When the process started to serve."""
    uptime_seconds: float
    """Seconds since then."""
    state: ServiceState
    """Whether it serves, drains or has a problem.

    - `ready`: All is well.
    - `draining`: It ends: it starts no runs and waits for those that are active.
    - `degraded`: It serves with a problem, or cannot serve; `reasons` say which.
    """
    reasons: list[str]
    """A sentence for each problem; none if all is well."""


@dataclass(frozen=True, kw_only=True)
class Versions(Answer):
    """The versions of what the service is made of."""

    python: str
    """The version of Python."""
    postgresql: str | None
    """The version of the database server; null before it was read."""
    schema: int | None
    """The number of the last migration; null before it was read."""


@dataclass(frozen=True, kw_only=True)
class Node(Answer):
    """A process of the service. What it does was told at its last beat, at most a second ago."""

    id: int
    """The number of the node. A process that starts again gets another one."""
    name: str
    """Its name: `node.name` or that of its machine, of several workers with `/1`, `/2` and so on."""
    version: str
    """The version of the service that it is."""
    state: str
    """`alive`; `leaving`: it begins nothing and waits for its runs; `condemned`: others have found it dead,
    and end its connections to the database.
    """
    roles: list[str]
    """What it does: `http`, `runs`, `chores`."""
    url: str
    """The address at which this very node answers; blank before it was told."""
    agents: int
    """How many agents it attends, counted at most one scan interval ago: those that run, hold, wait for a run
    slot or a retry.
    """
    runs: int
    """How many run slots are taken."""
    free_slots: int
    """How many runs it can start at once."""
    queued: int
    """How many starts wait for one of its run slots."""
    lag_ms: float | None
    """The 99th percentile of how late its event loop wakes up; null before the first measurement."""
    joined_at: dt.datetime
    """When it joined."""
    confirmed_seconds: float
    """Seconds since the node that answers has last seen it beat, twice a second if all is well."""


@dataclass(frozen=True, kw_only=True)
class EndedNode(Answer):
    """A node that has left, or was found dead, within a day."""

    id: int
    """The number of the node."""
    name: str
    """Its name."""
    version: str
    """The version of the service that it was."""
    joined_at: dt.datetime
    """When it joined."""
    ended_at: dt.datetime
    """When none of its connections to the database was left."""
    interrupted_runs: int
    """How many of its runs were interrupted. Their agents started again, on any node."""


@dataclass(frozen=True, kw_only=True)
class Oldest(Answer):
    """The high-priority notification that has been uncleared for the longest time."""

    agent: str
    """The agent whose queue it is in."""
    name: str
    """The name of the agent."""
    organization: str
    """The organization that the agent belongs to."""
    since: dt.datetime
    """When the notification became active."""


@dataclass(frozen=True, kw_only=True)
class Forgotten(Answer):
    """An agent that nothing will start, although a high-priority notification is active."""

    agent: str
    """The agent."""
    since: dt.datetime
    """Since when this has been seen."""


@dataclass(frozen=True, kw_only=True)
class HarnessStatus(Answer):
    """How runs are executed."""

    kind: str
    """`builtin` for the loop of the service, `process` for code of the agents."""
    containment: str
    """What holds the processes of a run together: `bubblewrap` or `none`; "" without processes."""
    network: str
    """What processes can reach: `full`, or only the `service`; "" without processes."""
    remaining: int
    """How many runs are over of which processes are left."""


@dataclass(frozen=True, kw_only=True)
class Supervisors(Answer):
    """The supervisors in memory of all nodes. An agent that is idle and was not addressed for a minute has
    none; one that was addressed through several nodes has one in each.
    """

    active: int
    """How many there are."""
    by_phase: dict[str, int]
    """How many are in each phase; a phase without any is left out."""
    mailbox: Mailboxes
    """The requests that wait for them."""
    restarts: int
    """How many crashed and were started again, since the start of the nodes that live."""
    quarantined: int
    """How many agents are in quarantine, with or without a supervisor in memory."""


@dataclass(frozen=True, kw_only=True)
class Mailboxes(Answer):
    """The requests that wait for supervisors."""

    depth: int
    """How many wait in all."""
    deepest: int
    """How many wait for the supervisor that has the most."""


@dataclass(frozen=True, kw_only=True)
class QuarantinedAgent(Answer):
    """An agent that is in quarantine after too many failures."""

    agent: str
    """The agent; `/status/supervisors/{id}/` explains it."""
    name: str
    """Its name."""
    organization: str
    """The organization that it belongs to."""
    failures: int
    """How many runs have failed in a row."""
    last_error: str
    """The beginning of the latest error, at most 200 characters."""
    until: dt.datetime | None
    """When the next retry is due; null if none is. A run request starts the agent earlier."""


@dataclass(frozen=True, kw_only=True)
class Agents(Answer):
    """The agents of all organizations, by status."""

    running: int
    """How many have an active run."""
    sleeping: int
    """How many are neither running nor archived."""
    archived: int
    """How many are archived."""
    held_by_limits: int
    """How many of the sleeping wait until they may wake again, or until their quiet hours end."""


@dataclass(frozen=True, kw_only=True)
class Runs(Answer):
    """The run slots."""

    running: int
    """How many are taken."""
    queued: int
    """How many starts wait for one."""
    limit: int
    """How many there are: the sum of `runs.max_concurrent` over all nodes."""


@dataclass(frozen=True, kw_only=True)
class Timers(Answer):
    """The moments at which agents must act next."""

    pending: int
    """How many agents have such a moment."""
    next_due_at: dt.datetime | None
    """The earliest of them; null if there is none."""
    lateness_ms: Spread
    """How late timers have fired."""


@dataclass(frozen=True, kw_only=True)
class Spread(Answer):
    """A distribution in milliseconds over the last several hundred measurements, null before the first."""

    p50: float | None
    """The median; null before the first measurement."""
    p99: float | None
    """The value that one in a hundred exceeds; null before the first measurement."""
    max: float | None
    """The greatest value; null before the first measurement."""


@dataclass(frozen=True, kw_only=True)
class PoolSize(Answer):
    """The connections of this instance to the database."""

    connections: int
    """How many are open."""
    idle: int
    """How many of them do nothing."""
    waiting: int
    """How many callers wait for one."""


@dataclass(frozen=True, kw_only=True)
class OutboxSize(Answer):
    """The webhooks of all organizations."""

    pending: int
    """How many are still to be delivered."""
    failed: int
    """How many were given up."""


@dataclass(frozen=True, kw_only=True)
class ServiceAddresses(Answer):
    """Paths of the service."""

    service: str
    """The name of the service: hostsvc."""
    api: str
    """The path that all paths of the API begin with."""
    console: str
    """A page to see and control agents, for people."""
    documentation: str
    """A page to read and try the API."""
    schema: str
    """The OpenAPI document, for programs."""
    health: str
    """Answers 200 while the process is alive."""
    readiness: str
    """Answers 200 while the service can serve, else 503 with the reasons."""
    status: str
    """Shows what every agent is doing, and why; needs the operator's token."""
    metrics: str
    """The state of the service in numbers, for Prometheus; needs the operator's token, unless it is open."""


@dataclass(frozen=True, kw_only=True)
class ApiAddresses(Answer):
    """Paths of the API."""

    documentation: str
    """A page to read and try the API."""
    schema: str
    """The OpenAPI document, for programs."""
    lists: list[str]
    """The paths that can be read without an id; each needs an API key or a user's token."""


ANSWERS: Mapping[str, Any] = {
    "sign_up": SignedUp,
    "log_in": LoggedIn,
    "get_caller": Caller,
    "log_out": None,
    "change_password": FreshToken,
    "reset_password": FreshToken,
    "request_reset": None,
    "create_organization": WholeOrganization,
    "list_organizations": list[WholeOrganization],
    "get_organization": WholeOrganization,
    "change_organization": WholeOrganization,
    "get_limits": Limits,
    "list_memberships": list[Membership],
    "get_membership": Membership,
    "change_membership": Membership,
    "delete_membership": None,
    "create_invite": NewInvite,
    "list_invites": list[Invite],
    "delete_invite": None,
    "accept_invite": SignedUp,
    "create_key": NewApiKey,
    "list_keys": list[ApiKey],
    "get_key": ApiKey,
    "change_key": ApiKey,
    "delete_key": None,
    "create_webhook": NewWebhook,
    "list_webhooks": list[Webhook],
    "get_webhook": Webhook,
    "change_webhook": Webhook,
    "delete_webhook": None,
    "send_webhook_test": WholeDelivery,
    "rotate_webhook_secret": RotatedWebhook,
    "list_webhook_deliveries": list[Delivery],
    "get_webhook_delivery": WholeDelivery,
    "redeliver_webhook": WholeDelivery,
    "create_hook": NewHook,
    "list_hooks": list[Hook],
    "get_hook": Hook,
    "change_hook": Hook,
    "delete_hook": None,
    "send_hook_test": HookDelivery,
    "list_hook_deliveries": list[HookDelivery],
    "create_secret": Secret,
    "list_secrets": list[Secret],
    "create_template_secret": Secret,
    "list_template_secrets": list[Secret],
    "get_secret": Secret,
    "change_secret": Secret,
    "delete_secret": None,
    "get_template_secret": Secret,
    "change_template_secret": Secret,
    "delete_template_secret": None,
    "list_audit_log": list[AuditEntry],
    "export_audit_log": str,
    "create_template": Template,
    "list_templates": list[Template],
    "get_template": Template,
    "change_template": Template,
    "delete_template": None,
    "create_adapter": Adapter,
    "list_adapters": list[Adapter],
    "get_adapter": Adapter,
    "change_adapter": Adapter,
    "delete_adapter": None,
    "create_config": AdapterConfig,
    "list_configs": list[AdapterConfig],
    "get_config": AdapterConfig,
    "change_config": AdapterConfig,
    "delete_config": None,
    "import_mcp_server": McpServer,
    "get_mcp_server": McpServer,
    "create_tool": Tool,
    "list_tools": list[Tool],
    "get_tool": Tool,
    "change_tool": Tool,
    "delete_tool": None,
    "accept_tool": Tool,
    "act_on_agents": AgentActions,
    "create_agent": Agent,
    "list_agents": list[Agent],
    "get_agent": Agent,
    "change_agent": Agent,
    "delete_agent": None,
    "get_bounds": Bounds,
    "tag_agent": Agent,
    "untag_agent": Agent,
    "list_agent_tools": list[AgentTool],
    "call_agent_tool": ToolCalled,
    "get_context": Context,
    "list_transcript": list[TranscriptTurn],
    "delete_transcript": None,
    "run_agent": RunAnswered,
    "stop_agent": StopAnswered,
    "list_runs": list[Run],
    "list_all_runs": list[Run],
    "get_run": Run,
    "get_supervisor": Snapshot | PastSupervisor,
    "list_own_supervisors": list[SupervisorRow],
    "get_overview": Overview,
    "act_on_attention": AttentionActed,
    "get_timeline": Timeline,
    "preview_agent": Preview,
    "rewind_agent": Rewind,
    "get_transcript": TraceTranscript,
    "get_usage": Usage,
    "report_usage": UsageRecord,
    "get_daily_usage": DailyUsage,
    "create_notification": Notification,
    "list_notifications": list[Notification],
    "get_notification": Notification,
    "change_notification": Notification,
    "delete_notification": None,
    "clear_notifications": Cleared,
    "create_schedule": WholeSchedule,
    "list_schedules": list[Schedule],
    "put_schedule": WholeSchedule,
    "preview_schedule": SchedulePreview,
    "get_schedule": WholeSchedule,
    "change_schedule": WholeSchedule,
    "delete_schedule": None,
    "run_schedule": Occurrence,
    "list_occurrences": list[Occurrence],
    "list_approvals": list[Approval],
    "get_approval": Approval,
    "decide_approval": Approval,
    "list_grants": list[Grant],
    "get_grant": Grant,
    "revoke_grant": Grant,
    "create_contact": Contact,
    "list_contacts": list[Contact],
    "get_contact": Contact,
    "change_contact": Contact,
    "delete_contact": None,
    "create_message": Message,
    "list_messages": list[Message],
    "get_message": Message,
    "change_message": Message,
    "delete_message": None,
    "download_attachment": bytes,
    "create_document": Document,
    "list_documents": list[Document],
    "search_documents": list[DocumentHit],
    "get_document": Document,
    "change_document": Document,
    "delete_document": None,
    "list_versions": list[Version],
    "list_agent_prompts": list[Version],
    "list_template_prompts": list[Version],
    "get_version": FullVersion,
    "get_agent_prompt": FullVersion,
    "get_template_prompt": FullVersion,
    "revert_document": Document,
    "revert_agent_prompt": Agent,
    "revert_template_prompt": Template,
    "create_project": Project,
    "list_projects": list[Project],
    "get_project": Project,
    "change_project": Project,
    "delete_project": None,
    "create_trace": Trace,
    "list_traces": TracePage,
    "get_trace": FullTrace,
    "end_trace": Trace,
    "list_traces_in_array": list[TracePage],
    "get_waterfall": Waterfall,
    "create_spans": Span | list[Span],
    "get_span": FullSpan,
    "end_span": FullSpan,
    "stream_agent_events": Events,
    "stream_run_events": Events,
    "stream_events": Events,
    "create_ticket": Ticket,
    "stream_all_events": Events,
    "is_alive": Alive,
    "is_ready": Ready,
    "get_status": Status,
    "list_supervisors": list[Snapshot],
    "get_any_supervisor": Snapshot | PastSupervisor,
    "get_metrics": str,
    "get_service_addresses": ServiceAddresses,
    "get_api_addresses": ApiAddresses,
    "get_schema": dict[str, Any],
    "get_docs": str,
}
