"""The resources of the API, and the client that has them.

Written by `make client` from the API document; do not edit.
"""

from __future__ import annotations

import builtins
import datetime as dt
from typing import TYPE_CHECKING, Any, AsyncGenerator, Literal, Sequence

from hostsvc_client._async import AsyncAgentExtras, AsyncClient, AsyncPages, AsyncResource, AsyncRunsExtras
from hostsvc_client._base import Upload
from hostsvc_client._webhooks import WebhooksExtras

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hostsvc_client import inputs, models


class AsyncAgents(AsyncResource):
    """Agents, with their runs, tools and usage. An agent runs when something wakes it, then sleeps."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.AgentBody],
    ) -> models.Agent:
        """Create an agent, asleep unless the body says otherwise.

        If it has a parent, the parent gets a low notification. If its template has an
        `agent_created_webhook_url`, a webhook is sent to it. If the organization already has `limits.agents`
        agents, the answer is 400. So it is if no provider has the model, or a spending cap refuses it because
        its price is not known.
        """
        return await self._client._call(
            "create_agent", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        include_archived: bool | None = None,
        organization: str | None = None,
        purpose: inputs.PurposeValue | None = None,
        tag: Sequence[str] | None = None,
        template: str | None = None,
        status: inputs.AgentStatusValue | None = None,
        parent: str | None = None,
        name: str | None = None,
        search: str | None = None,
    ) -> AsyncPages[models.Agent]:
        """List the agents of your organizations, newest first, without archived ones unless you ask for them."""
        return self._client._pages(
            "list_agents",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "include_archived": include_archived,
                "organization": organization,
                "purpose": purpose,
                "tag": tag,
                "template": template,
                "status": status,
                "parent": parent,
                "name": name,
                "search": search,
            },
        )

    async def get(self, id: str, /) -> models.Agent:
        """Read one agent. The token of a run may read the run's own agent."""
        return await self._client._call("get_agent", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedAgentBody]) -> models.Agent:
        """Change the fields that the body contains; `adapters` and `tags` are replaced as a whole.

        A new debounce window or limit on wakes applies to a current wait at once, and a higher spending cap
        wakes an agent that is due. A run or a sleep of an archived agent is refused with 409. If the supervisor
        has too many requests waiting, the answer is 503 and nothing is changed. `X-Bounds-Raised` names the
        bounds of the agent that are higher than before, such as `wakes_per_day=48`.
        """
        return await self._client._call("change_agent", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete an agent and stop its run. Its data is deleted in small batches afterwards.

        It answers 404 from now on, and its children have no parent. Its usage and traces stay readable for the
        time that the operator has set.
        """
        return await self._client._call("delete_agent", (id,))

    async def act(self, **body: Unpack[inputs.ActOnAgentsBody]) -> models.AgentActions:
        """Pause, resume, stop, archive, restore, clear or tag many agents: those given, or all that match.

        One call changes up to 1,000 agents, or clears up to 1,000 notifications, in about five seconds. Repeat
        it with its `next` as `after` for the rest; agents that are as the action leaves them stay untouched.
        Try it with `dry_run` first. `undo` is the body of the call that undoes this one. An agent of another
        organization is refused with 403, before anything is changed.
        """
        return await self._client._call("act_on_agents", (), body=body)

    async def rewind(self, **body: Unpack[inputs.RewindBody]) -> models.Rewind:
        """Replay a recorded period of an agent under other settings, by the same rules that start it.

        Arrivals, requests and the lengths of runs are those of the event log. No model is asked, nothing is
        stored and nothing starts. A period that the log no longer keeps, or that is too long, is refused.
        """
        return await self._client._call("rewind_agent", (), body=body)


class AsyncAgentHandle(AsyncAgentExtras):
    """What can be asked of one agent."""

    async def run(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.RunBody]
    ) -> models.RunAnswered:
        """Request a run. It is stored before it is answered, and survives a restart of the service.

        `status` says what it led to. An archived agent is refused with 409. If the supervisor has too many
        requests waiting, the answer is 503 and the request has no effect.
        """
        return await self._client._call("run_agent", (self.id,), idempotency_key=idempotency_key, body=body)

    async def stop(self, **body: Unpack[inputs.StopBody]) -> models.StopAnswered:
        """Stop an agent: end its run, and cancel a pending start, a wait for messages or a retry.

        The run has `runs.stop_grace_seconds` to end. Notifications from before the stop start nothing; the
        agent rests until something new arrives. Stopping an agent that plainly sleeps changes nothing.
        """
        return await self._client._call("stop_agent", (self.id,), body=body)

    def runs(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        outcome: inputs.OutcomeValue | None = None,
        wake_reason: Literal[
            "run_requested",
            "reminder",
            "sleep_elapsed",
            "restart_recovery",
            "retry_after_failure",
            "uncleared_notifications",
            "notification",
            "notification:email",
            "notification:sms",
            "notification:mms",
            "notification:sms_provider_a",
            "notification:sms_provider_b",
            "notification:system",
            "notification:agent",
            "notification:subagent",
            "notification:browser",
            "notification:api",
            "notification:portal",
        ]
        | None = None,
        active: bool | None = None,
        needs_person: bool | None = None,
        has_failed_calls: bool | None = None,
        started_after: dt.datetime | str | None = None,
        started_before: dt.datetime | str | None = None,
    ) -> AsyncPages[models.Run]:
        """List the runs of an agent, last started first, 50 of them unless `limit` says otherwise."""
        return self._client._pages(
            "list_runs",
            (self.id,),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "outcome": outcome,
                "wake_reason": wake_reason,
                "active": active,
                "needs_person": needs_person,
                "has_failed_calls": has_failed_calls,
                "started_after": started_after,
                "started_before": started_before,
            },
        )

    def events(
        self, *, since: int | None = None, type: Sequence[str] | None = None
    ) -> AsyncGenerator[models.Event, None]:
        """Stream what happens to an agent, and the pauses of its organization.

        The answer is a stream of server-sent events unless `limit`, `wait` or `Accept: application/json` asks
        for JSON. `Last-Event-ID` resumes it, and counts more than `after`.
        """
        return self._client._events("stream_agent_events", (self.id,), since=since, query={"type": type})

    async def supervisor(
        self, *, at: dt.datetime | str | None = None
    ) -> models.Snapshot | models.PastSupervisor:
        """Explain what the agent is doing and why, and what wakes it next; with `at`, as it was then."""
        return await self._client._call("get_supervisor", (self.id,), query={"at": at})

    async def timeline(
        self, *, start: dt.datetime | str | None = None, end: dt.datetime | str | None = None
    ) -> models.Timeline:
        """Show what happened to an agent in a period, by default the last 24 hours: its phases, and what was
        beside them, such as notifications, messages and changes by people.

        If the period reaches past now, the answer says what lies ahead. A period with more than 4,000 changes
        of the phase is refused, with the latest `end` that its `start` takes.
        """
        return await self._client._call("get_timeline", (self.id,), query={"start": start, "end": end})

    async def preview(self, **body: Unpack[inputs.PreviewBody]) -> models.Preview:
        """Explain an agent as it is now, and as it would be if notifications came, if it were changed, or by
        itself at a moment ahead.

        The rules of the service compute it on a copy; nothing is stored and nothing starts. It ends with the
        next run, because no rule decides what a run does. A change that PATCH would refuse is refused.
        """
        return await self._client._call("preview_agent", (self.id,), body=body)

    async def context(self) -> models.Context:
        """Read what the agent is told when it wakes: its notifications, conversations, core memory and last runs.

        During a run it is what the run would be told now; reading it changes nothing. `system` and `text` are
        the two messages that the built-in loop sends to the model.
        """
        return await self._client._call("get_context", (self.id,))

    async def bounds(self) -> models.Bounds:
        """Read what the settings of an agent guarantee: how often it wakes, what it spends, how long it waits.

        A PATCH of the agent that raises one of these bounds names it in `X-Bounds-Raised`.
        """
        return await self._client._call("get_bounds", (self.id,))

    async def tag(self, **body: Unpack[inputs.TagsBody]) -> models.Agent:
        """Add tags to an agent; those that it already has stay where they are."""
        return await self._client._call("tag_agent", (self.id,), body=body)

    async def untag(self, **body: Unpack[inputs.TagsBody]) -> models.Agent:
        """Remove tags from an agent; those that it does not have are ignored."""
        return await self._client._call("untag_agent", (self.id,), body=body)

    async def tools(self) -> builtins.list[models.AgentTool]:
        """List the tools that the agent has now: built-in ones and those of its adapters.

        Tools that deliver messages are left out, because only `send_message` and `send_sms` call them.
        """
        return await self._client._call("list_agent_tools", (self.id,))

    async def call_tool(self, name: str, /, **body: Any) -> models.ToolCalled:
        """Call a tool on behalf of an agent. The body holds the parameters by name.

        With the token of a run, the run is the caller; only then can it sleep. A tool that fails is answered
        with 400 and an `error` with a code, an unknown one with 404. A tool of an adapter may take up to
        `outbound.timeout_seconds`.
        """
        return await self._client._call(
            "call_agent_tool",
            (
                self.id,
                name,
            ),
            body=body,
        )

    def transcript(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        carried: bool | None = None,
    ) -> AsyncPages[models.TranscriptTurn]:
        """List what an agent carries from run to run, newest first.

        Only agents with a template whose `carry_over` is `transcript` have one. Each turn of a run is stored
        before the next one begins.
        """
        return self._client._pages(
            "list_transcript",
            (self.id,),
            query={"limit": limit, "offset": offset, "after": after, "carried": carried},
        )

    async def delete_transcript(self) -> None:
        """Delete the whole transcript of an agent, so that its next run starts without.

        A run that is active goes on with what it was told, and stores its further turns.
        """
        return await self._client._call("delete_transcript", (self.id,))

    async def prompts(self) -> builtins.list[models.Version]:
        """List the last 50 versions of the agent's own system prompt, the current one first."""
        return await self._client._call("list_agent_prompts", (self.id,))

    async def prompt(self, number: int, /) -> models.FullVersion:
        """Read one version of the agent's own system prompt."""
        return await self._client._call(
            "get_agent_prompt",
            (
                self.id,
                number,
            ),
        )

    async def revert_prompt(self, number: int, /) -> models.Agent:
        """Make an earlier version the agent's system prompt again, as a new version; nothing is lost."""
        return await self._client._call(
            "revert_agent_prompt",
            (
                self.id,
                number,
            ),
        )

    async def put_schedule(
        self, name: str, /, **body: Unpack[inputs.PutScheduleBody]
    ) -> models.WholeSchedule:
        """Create the schedule of this name, or replace its settings. The same settings again change nothing."""
        return await self._client._call(
            "put_schedule",
            (
                self.id,
                name,
            ),
            body=body,
        )

    async def usage(
        self,
        *,
        start_date: dt.datetime | str | dt.date | str | None = None,
        end_date: dt.datetime | str | dt.date | str | None = None,
    ) -> models.Usage:
        """Sum up the model calls of an agent over a period, by default the last 30 days.

        It stays readable after the agent was deleted.
        """
        return await self._client._call(
            "get_usage", (self.id,), query={"start_date": start_date, "end_date": end_date}
        )

    async def report_usage(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.NewUsageBody]
    ) -> models.UsageRecord:
        """Report a model call of a harness of your own. The service records the calls of its own loop itself.

        The cost counts against the spending caps. A report with the token of a run counts against the
        organization only for what the agent's own cap leaves.
        """
        return await self._client._call(
            "report_usage", (self.id,), idempotency_key=idempotency_key, body=body
        )


class AsyncRuns(AsyncRunsExtras):
    """The runs of all agents together."""

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        outcome: inputs.OutcomeValue | None = None,
        wake_reason: Literal[
            "run_requested",
            "reminder",
            "sleep_elapsed",
            "restart_recovery",
            "retry_after_failure",
            "uncleared_notifications",
            "notification",
            "notification:email",
            "notification:sms",
            "notification:mms",
            "notification:sms_provider_a",
            "notification:sms_provider_b",
            "notification:system",
            "notification:agent",
            "notification:subagent",
            "notification:browser",
            "notification:api",
            "notification:portal",
        ]
        | None = None,
        active: bool | None = None,
        needs_person: bool | None = None,
        has_failed_calls: bool | None = None,
        started_after: dt.datetime | str | None = None,
        started_before: dt.datetime | str | None = None,
        agent: str | None = None,
    ) -> AsyncPages[models.Run]:
        """List the runs of all agents of your organizations, the last started first.

        Filters combine: `outcome=failed&wake_reason=notification&started_after=…`.
        """
        return self._client._pages(
            "list_all_runs",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "outcome": outcome,
                "wake_reason": wake_reason,
                "active": active,
                "needs_person": needs_person,
                "has_failed_calls": has_failed_calls,
                "started_after": started_after,
                "started_before": started_before,
                "agent": agent,
            },
        )

    async def get(self, id: str, run_id: str, /, *, wait: int | None = None) -> models.Run:
        """Read a run; with `wait`, when it has ended with a complete trace, or after that many seconds."""
        return await self._client._call(
            "get_run",
            (
                id,
                run_id,
            ),
            query={"wait": wait},
        )

    def events(
        self, id: str, run_id: str, /, *, since: int | None = None, type: Sequence[str] | None = None
    ) -> AsyncGenerator[models.Event, None]:
        """Stream what happens in a run: its start, its end, and the changes that it makes.

        The answer is a stream unless `limit`, `wait` or `Accept: application/json` asks for JSON.
        """
        return self._client._events(
            "stream_run_events",
            (
                id,
                run_id,
            ),
            since=since,
            query={"type": type},
        )


class AsyncNotifications(AsyncResource):
    """The queue of each agent. High-priority ones wake it and keep it awake until cleared."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.NewNotificationBody]
    ) -> models.Notification:
        """Add a notification to the queue of an agent.

        If it is high and not scheduled for later, it wakes the agent: at once, or after the debounce window if
        its source is conversational. A low one wakes nobody. An archived agent accepts notifications and stays
        asleep. With 201 the notification is stored durably. If the organization has too many waiting ones, the
        answer is 429. `X-Hint` says of a low one that is scheduled for later that it will wake nobody. A run
        creates notifications of its own agent, like its tool, with `agent` as their source.
        """
        return await self._client._call("create_notification", (), idempotency_key=idempotency_key, body=body)

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        created_after: dt.datetime | str | None = None,
        created_before: dt.datetime | str | None = None,
        agent: str | None = None,
        cleared: bool | None = None,
        priority: inputs.PriorityValue | None = None,
        source: inputs.SourceValue | None = None,
        scheduled_after: dt.datetime | str | None = None,
        scheduled_before: dt.datetime | str | None = None,
    ) -> AsyncPages[models.Notification]:
        """List notifications, including those scheduled for later, which only the agent's own tool hides.

        A run lists those of its agent.
        """
        return self._client._pages(
            "list_notifications",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "created_after": created_after,
                "created_before": created_before,
                "agent": agent,
                "cleared": cleared,
                "priority": priority,
                "source": source,
                "scheduled_after": scheduled_after,
                "scheduled_before": scheduled_before,
            },
        )

    async def get(self, id: str, /) -> models.Notification:
        """Read one notification. Reading changes nothing: only clearing takes it from the queue."""
        return await self._client._call("get_notification", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.NotificationChangesBody]) -> models.Notification:
        """Change the fields that the body contains.

        If this makes the notification high, uncleared and due, it wakes the agent like a new one. Clearing it,
        making it low or moving it to a later time can end a wait for further messages.
        """
        return await self._client._call("change_notification", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a notification. It no longer wakes the agent, nor keeps it from sleeping."""
        return await self._client._call("delete_notification", (id,))

    async def clear(self, **body: Unpack[inputs.ClearBody]) -> models.Cleared:
        """Clear many notifications of one agent at once, or none if one of the ids does not belong to it.

        Notifications that are already cleared keep their `cleared_at` and do not count.
        """
        return await self._client._call("clear_notifications", (), body=body)


class AsyncSchedules(AsyncResource):
    """What puts a notification into the queue of an agent again and again, at set times."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.NewScheduleBody]
    ) -> models.WholeSchedule:
        """Create a schedule for an agent.

        An expression that never comes is refused. `X-Hint` warns of one that may mean something else than is
        expected. An agent has at most 100 schedules.
        """
        return await self._client._call("create_schedule", (), idempotency_key=idempotency_key, body=body)

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        agent: str | None = None,
        paused: bool | None = None,
        tag: str | None = None,
    ) -> AsyncPages[models.Schedule]:
        """List the schedules of your organizations, newest first."""
        return self._client._pages(
            "list_schedules",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "agent": agent,
                "paused": paused,
                "tag": tag,
            },
        )

    async def get(self, id: str, /) -> models.WholeSchedule:
        """Read one schedule with its next moments."""
        return await self._client._call("get_schedule", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.ScheduleChangesBody]) -> models.WholeSchedule:
        """Change the fields that the body contains. An occurrence that is due at this moment is not lost."""
        return await self._client._call("change_schedule", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a schedule and its record. The notifications that it made stay."""
        return await self._client._call("delete_schedule", (id,))

    async def run(self, id: str, /) -> models.Occurrence:
        """Notify the agent at once, also while the schedule is paused. Its next moment stays as it is.

        The answer is 409 if the schedule is being changed at the same time.
        """
        return await self._client._call("run_schedule", (id,))

    async def preview(self, **body: Unpack[inputs.SchedulePreviewBody]) -> models.SchedulePreview:
        """Show when a schedule would occur, without creating one."""
        return await self._client._call("preview_schedule", (), body=body)

    async def occurrences(
        self,
        id: str,
        /,
        *,
        outcome: inputs.OccurrenceOutcomeValue | None = None,
        since: dt.datetime | str | None = None,
    ) -> builtins.list[models.Occurrence]:
        """List what became of the last 100 occurrences, the latest first."""
        return await self._client._call("list_occurrences", (id,), query={"outcome": outcome, "since": since})


class AsyncApprovals(AsyncResource):
    """Calls and questions of agents that wait for a person's decision, or for a result."""

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        state: inputs.CallStateValue | None = None,
        kind: inputs.CallKindValue | None = None,
        agent: str | None = None,
        tool: str | None = None,
        older_than: int | None = None,
    ) -> AsyncPages[models.Approval]:
        """List the calls and questions of agents that wait or have waited, newest first."""
        return self._client._pages(
            "list_approvals",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "state": state,
                "kind": kind,
                "agent": agent,
                "tool": tool,
                "older_than": older_than,
            },
        )

    async def get(self, id: str, /) -> models.Approval:
        """Read one call or question, with exactly the arguments that were given."""
        return await self._client._call("get_approval", (id,))

    async def decide(self, id: str, /, **body: Unpack[inputs.DecisionBody]) -> models.Approval:
        """Approve or deny a call, or answer a question.

        On approval the service makes the call, with exactly the arguments that are stored or given here, and
        wakes the agent with the result. The same decision again changes nothing. After another one, and for
        what has expired or was withdrawn, the answer is 409 and says what happened. It needs the role in
        `approvers`.
        """
        return await self._client._call("decide_approval", (id,), body=body)


class AsyncGrants(AsyncResource):
    """What can be asked of grants."""

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        agent: str | None = None,
        tool_id: str | None = None,
    ) -> AsyncPages[models.Grant]:
        """List the grants of your organizations, newest first, those that have ended among them."""
        return self._client._pages(
            "list_grants",
            (),
            query={"limit": limit, "offset": offset, "after": after, "agent": agent, "tool_id": tool_id},
        )

    async def get(self, id: str, /) -> models.Grant:
        """Read one grant."""
        return await self._client._call("get_grant", (id,))

    async def revoke(self, id: str, /) -> models.Grant:
        """Let the calls that a grant covers ask again, from the next one on. Anybody in the organization may."""
        return await self._client._call("revoke_grant", (id,))


class AsyncTemplates(AsyncResource):
    """Settings that many agents share."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.TemplateBody],
    ) -> models.Template:
        """Create a template. If its `default_model` has no provider, or no price and its cap refuses it: 400.

        A repeated request with the same `Idempotency-Key` gets the first answer without its `tool_call_secret`.
        """
        return await self._client._call(
            "create_template", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Template]:
        """List the templates of your organizations, newest first."""
        return self._client._pages(
            "list_templates", (), query={"limit": limit, "offset": offset, "after": after}
        )

    async def get(self, id: str, /) -> models.Template:
        """Read one template."""
        return await self._client._call("get_template", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedTemplateBody]) -> models.Template:
        """Change the fields that the body contains. All agents that inherit them are affected.

        New debounce windows and limits on wakes apply to current waits at once; a higher cap wakes agents that
        are due. If the cap refuses models of its agents, whose prices are not known, `X-Unpriced-Models` names
        them.
        """
        return await self._client._call("change_template", (id,), body=body)

    async def delete(self, id: str, /, *, detach: bool | None = None) -> None:
        """Delete a template with its adapter configs.

        While agents use it, the answer is 409, unless `detach` lets them keep the settings that they inherit.
        Its pending webhooks fail, because they can no longer be signed.
        """
        return await self._client._call("delete_template", (id,), query={"detach": detach})

    async def prompts(self, id: str, /) -> builtins.list[models.Version]:
        """List the last 50 versions of the template's system prompt, the current one first."""
        return await self._client._call("list_template_prompts", (id,))

    async def prompt(self, id: str, number: int, /) -> models.FullVersion:
        """Read one version of the template's system prompt."""
        return await self._client._call(
            "get_template_prompt",
            (
                id,
                number,
            ),
        )

    async def revert_prompt(self, id: str, number: int, /) -> models.Template:
        """Make an earlier version the template's system prompt again, as a new version; nothing is lost."""
        return await self._client._call(
            "revert_template_prompt",
            (
                id,
                number,
            ),
        )

    async def create_secret(
        self, id: str, /, *, idempotency_key: str | None = None, **body: Unpack[inputs.SecretBody]
    ) -> models.Secret:
        """Create a secret for the agents of one template. Members are refused with 403.

        It takes precedence over a secret of the organization with the same name. If the organization would have
        more than `limits.secrets`, the answer is 400.
        """
        return await self._client._call(
            "create_template_secret", (id,), idempotency_key=idempotency_key, body=body
        )

    def secrets(
        self, id: str, /, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Secret]:
        """List the secrets of a template, without their values, newest first. Members are refused with 403."""
        return self._client._pages(
            "list_template_secrets", (id,), query={"limit": limit, "offset": offset, "after": after}
        )

    async def secret(self, id: str, secret_id: str, /) -> models.Secret:
        """Read the name and the times of a template's secret, without its value. Members are refused with 403."""
        return await self._client._call(
            "get_template_secret",
            (
                id,
                secret_id,
            ),
        )

    async def change_secret(
        self, id: str, secret_id: str, /, **body: Unpack[inputs.SecretChangesBody]
    ) -> models.Secret:
        """Replace the value of a template's secret. The next run and the next tool call get the new one."""
        return await self._client._call(
            "change_template_secret",
            (
                id,
                secret_id,
            ),
            body=body,
        )

    async def delete_secret(self, id: str, secret_id: str, /) -> None:
        """Delete a template's secret. A secret of the organization with the same name takes its place."""
        return await self._client._call(
            "delete_template_secret",
            (
                id,
                secret_id,
            ),
        )


class AsyncAdapters(AsyncResource):
    """Adapters group the tools that an agent can be given."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.AdapterBody],
    ) -> models.Adapter:
        """Create a private adapter; only an operator can publish it. Add its tools afterwards."""
        return await self._client._call(
            "create_adapter", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        visibility: inputs.VisibilityValue | None = None,
    ) -> AsyncPages[models.Adapter]:
        """List your own adapters and the public ones, newest first."""
        return self._client._pages(
            "list_adapters",
            (),
            query={"limit": limit, "offset": offset, "after": after, "visibility": visibility},
        )

    async def get(self, id: str, /) -> models.Adapter:
        """Read one adapter, of your own or public."""
        return await self._client._call("get_adapter", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedAdapterBody]) -> models.Adapter:
        """Change the fields that the body contains.

        Existing configs are not checked against a new `config_schema`.
        """
        return await self._client._call("change_adapter", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete an adapter with its tools and configs, and remove it from all agents."""
        return await self._client._call("delete_adapter", (id,))

    async def import_mcp(self, id: str, /, **body: Unpack[inputs.McpServerBody]) -> models.McpServer:
        """Import the tools of an MCP server into the adapter. Members are refused with 403.

        The tools of the first list become tools of the adapter at once, with handlers `mcp:<name>`. The list is
        read again when it expires, and by each further call of this route; what has changed then waits as
        `offered` of the tool. A server that cannot be reached is tried again; `error` says why. An adapter has
        one server: a new `url` becomes that of all its tools.
        """
        return await self._client._call("import_mcp_server", (id,), body=body)

    async def mcp(self, id: str, /) -> models.McpServer:
        """Read the MCP server of an adapter of your own; 404 if it has none."""
        return await self._client._call("get_mcp_server", (id,))


class AsyncAdapterConfigs(AsyncResource):
    """The configuration of an adapter for the agents of a template."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.AdapterConfigBody]
    ) -> models.AdapterConfig:
        """Create the config of an adapter for a template.

        A config that does not fit the adapter's `config_schema` is refused with 400, and so is a second one.
        """
        return await self._client._call("create_config", (), idempotency_key=idempotency_key, body=body)

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        template: str | None = None,
        adapter: str | None = None,
    ) -> AsyncPages[models.AdapterConfig]:
        """List the adapter configs of your organizations, newest first."""
        return self._client._pages(
            "list_configs",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "template": template,
                "adapter": adapter,
            },
        )

    async def get(self, id: str, /) -> models.AdapterConfig:
        """Read one adapter config."""
        return await self._client._call("get_config", (id,))

    async def change(
        self, id: str, /, **body: Unpack[inputs.AdapterConfigChangesBody]
    ) -> models.AdapterConfig:
        """Change the fields that the body contains. Tool calls use them at once.

        A config that does not fit the adapter's `config_schema` is refused with 400.
        """
        return await self._client._call("change_config", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete an adapter config. Tool calls then carry null as their config, and wait as the tools say.

        One with an `approval` is deleted by admins and owners only.
        """
        return await self._client._call("delete_config", (id,))


class AsyncTools(AsyncResource):
    """The tools of adapters: HTTP endpoints of yours that agents call."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.ToolBody]
    ) -> models.Tool:
        """Create a tool in one of your own adapters.

        Agents that have the adapter have the tool from their next model call on. A `$ref` to another document
        is refused.
        """
        return await self._client._call("create_tool", (), idempotency_key=idempotency_key, body=body)

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        adapter: str | None = None,
    ) -> AsyncPages[models.Tool]:
        """List the tools of your own adapters and of the public ones, newest first."""
        return self._client._pages(
            "list_tools", (), query={"limit": limit, "offset": offset, "after": after, "adapter": adapter}
        )

    async def get(self, id: str, /) -> models.Tool:
        """Read one tool, of your own or of a public adapter."""
        return await self._client._call("get_tool", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.ToolChangesBody]) -> models.Tool:
        """Change the fields that the body contains. Calls use the new values at once."""
        return await self._client._call("change_tool", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a tool. Agents no longer have it."""
        return await self._client._call("delete_tool", (id,))

    async def accept(self, id: str, /) -> models.Tool:
        """Change the tool to what its MCP server offers, so that agents have it. Members are refused with 403.

        What waits for an approval of the tool is withdrawn. If nothing is offered, the tool stays as it is; one
        that its server offers no more can be deleted.
        """
        return await self._client._call("accept_tool", (id,))


class AsyncHooks(AsyncResource):
    """Inbound hooks: addresses at which other services deliver events to agents."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.HookBody]
    ) -> models.NewHook:
        """Create a hook, which takes deliveries from now on. Only this answer contains its secret.

        It belongs to an agent or to a template. Members are refused with 403. If the organization would have
        more than `limits.webhooks` event webhooks and hooks, the answer is 400.
        """
        return await self._client._call("create_hook", (), idempotency_key=idempotency_key, body=body)

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Hook]:
        """List the hooks of the organizations that you administer, newest first. Members are refused with 403."""
        return self._client._pages("list_hooks", (), query={"limit": limit, "offset": offset, "after": after})

    async def get(self, id: str, /) -> models.Hook:
        """Read one hook, without its secret. Members are refused with 403."""
        return await self._client._call("get_hook", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedHookBody]) -> models.Hook:
        """Change the fields that the body contains, also the secret. The next delivery sees the change.

        The secret before stays valid for a day; a second change ends it at once.
        """
        return await self._client._call("change_hook", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a hook. Its notifications stay."""
        return await self._client._call("delete_hook", (id,))

    async def test(self, id: str, /, **body: Unpack[inputs.HookTestBody]) -> models.HookDelivery:
        """Handle a payload as if it had been delivered now, and verified: its notification may wake the agent."""
        return await self._client._call("send_hook_test", (id,), body=body)

    async def deliveries(self, id: str, /) -> builtins.list[models.HookDelivery]:
        """List the last 100 deliveries to a hook, newest first. Members are refused with 403."""
        return await self._client._call("list_hook_deliveries", (id,))


class AsyncWebhooks(WebhooksExtras, AsyncResource):
    """Event webhooks: addresses that get an organization's events as signed requests."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.WebhookBody],
    ) -> models.NewWebhook:
        """Create an event webhook, which gets events from now on. Only this answer contains its secret.

        Members are refused with 403. If the organization would have more than `limits.webhooks`, the answer is
        400.
        """
        return await self._client._call(
            "create_webhook", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Webhook]:
        """List the event webhooks of the organizations that you administer, newest first.

        Members are refused with 403.
        """
        return self._client._pages(
            "list_webhooks", (), query={"limit": limit, "offset": offset, "after": after}
        )

    async def get(self, id: str, /) -> models.Webhook:
        """Read one event webhook, without its secret. Members are refused with 403."""
        return await self._client._call("get_webhook", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedWebhookBody]) -> models.Webhook:
        """Change the fields that the body contains. Later events are compared with the new ones."""
        return await self._client._call("change_webhook", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete an event webhook. Its pending deliveries fail, because they can no longer be signed."""
        return await self._client._call("delete_webhook", (id,))

    async def test(self, id: str, /) -> models.WholeDelivery:
        """Send a request of the type `webhook.test`, and answer with its delivery, whose status tells the result.

        A webhook that is switched off is refused with 409.
        """
        return await self._client._call("send_webhook_test", (id,))

    async def rotate(self, id: str, /) -> models.RotatedWebhook:
        """Make a new secret, which only this answer contains. For a day, the old one signs the requests as well.

        A sixth rotation within a day is refused with 409.
        """
        return await self._client._call("rotate_webhook_secret", (id,))


class AsyncDeliveries(AsyncResource):
    """What can be asked of deliveries."""

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        agent: str | None = None,
        template: str | None = None,
        webhook: str | None = None,
        status: inputs.DeliveryStatusValue | None = None,
    ) -> AsyncPages[models.Delivery]:
        """List the webhook deliveries of your organizations, newest first, without their payloads."""
        return self._client._pages(
            "list_webhook_deliveries",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "agent": agent,
                "template": template,
                "webhook": webhook,
                "status": status,
            },
        )

    async def get(self, id: str, /) -> models.WholeDelivery:
        """Read one webhook delivery with its payload."""
        return await self._client._call("get_webhook_delivery", (id,))

    async def redeliver(self, id: str, /) -> models.WholeDelivery:
        """Send a delivery of any status again at once, under the same id and with a new retry schedule."""
        return await self._client._call("redeliver_webhook", (id,))


class AsyncContacts(AsyncResource):
    """The people that agents are in touch with."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.ContactBody],
    ) -> models.Contact:
        """Create a contact, for one agent or for all agents of the organization.

        Messages and the agents' messaging tools refer to it by its id. Each phone number and e-mail address
        belongs to one contact of the organization: an address of another contact is refused with 400.
        """
        return await self._client._call(
            "create_contact", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        created_after: dt.datetime | str | None = None,
        created_before: dt.datetime | str | None = None,
        agent: str | None = None,
        email: str | None = None,
        phone: str | None = None,
        search: str | None = None,
    ) -> AsyncPages[models.Contact]:
        """List the contacts of your organizations, newest first.

        A run lists those of its agent and those for all agents.
        """
        return self._client._pages(
            "list_contacts",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "created_after": created_after,
                "created_before": created_before,
                "agent": agent,
                "email": email,
                "phone": phone,
                "search": search,
            },
        )

    async def get(self, id: str, /) -> models.Contact:
        """Read one contact."""
        return await self._client._call("get_contact", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedContactBody]) -> models.Contact:
        """Change the fields that the body contains; the others stay as they are.

        A run may not change the `agent`, nor the addresses if its template's `may_create_contacts` is false.
        """
        return await self._client._call("change_contact", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a contact. Its messages stay, with null as their `contact`."""
        return await self._client._call("delete_contact", (id,))


class AsyncMessages(AsyncResource):
    """Messages between agents and contacts. An inbound one also notifies its agent."""

    async def create(
        self,
        *,
        idempotency_key: str | None = None,
        files: Sequence[Upload] = (),
        **body: Unpack[inputs.NewMessageBody],
    ) -> models.Message:
        """Store a message, with the files that a multipart form contains.

        An inbound message also puts a high notification into the agent's queue, which wakes the agent after its
        debounce window. If `from` names its sender, the contact with this address is found, or created with it.
        An outbound message is only stored: it is not sent. Agents send messages by their tools.
        """
        return await self._client._call(
            "create_message", (), idempotency_key=idempotency_key, files=files, body=body
        )

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        created_after: dt.datetime | str | None = None,
        created_before: dt.datetime | str | None = None,
        agent: str | None = None,
        contact: str | None = None,
        channel: inputs.ChannelValue | None = None,
        direction: inputs.DirectionValue | None = None,
        status: inputs.MessageStatusValue | None = None,
        needs_person: bool | None = None,
    ) -> AsyncPages[models.Message]:
        """List the messages of your organizations, newest first. A run lists those of its agent."""
        return self._client._pages(
            "list_messages",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "created_after": created_after,
                "created_before": created_before,
                "agent": agent,
                "contact": contact,
                "channel": channel,
                "direction": direction,
                "status": status,
                "needs_person": needs_person,
            },
        )

    async def get(self, id: str, /) -> models.Message:
        """Read one message."""
        return await self._client._call("get_message", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.MessageChangesBody]) -> models.Message:
        """Change the fields that the body contains.

        A tool that delivers messages reports its result this way, in `status`. The agent is not notified again.
        """
        return await self._client._call("change_message", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a message. A notification about it stays in the agent's queue."""
        return await self._client._call("delete_message", (id,))


class AsyncAttachments(AsyncResource):
    """Files that were uploaded with messages."""

    async def download(self, id: str, /) -> bytes:
        """Download a file that was uploaded with a message.

        Browsers store it rather than show it: nothing in it runs. A run reads the files of its own agent.
        """
        return await self._client._call("download_attachment", (id,))


class AsyncDocuments(AsyncResource):
    """Texts that agents keep or are given."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.DocumentBody],
    ) -> models.Document:
        """Create a document, for one agent or for all agents of the organization.

        With a `path` the agent finds it by its tool `memory`; `/memories/core.md` may have 8,192 bytes. If the
        organization's documents would take more than `limits.document_bytes`, the answer is 400. A run creates
        documents of its agent, also without an `agent` in the body.
        """
        return await self._client._call(
            "create_document", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        created_after: dt.datetime | str | None = None,
        created_before: dt.datetime | str | None = None,
        agent: str | None = None,
        project: str | None = None,
        path: str | None = None,
        deleted: bool | None = None,
    ) -> AsyncPages[models.Document]:
        """List the documents of your organizations with their contents, newest first.

        A run lists those of its agent and those for all agents.
        """
        return self._client._pages(
            "list_documents",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "created_after": created_after,
                "created_before": created_before,
                "agent": agent,
                "project": project,
                "path": path,
                "deleted": deleted,
            },
        )

    async def search(
        self, *, query: str | None = None, agent: str | None = None, limit: int | None = None
    ) -> builtins.list[models.DocumentHit]:
        """Search titles, paths and the first 50,000 characters of contents for words, best first.

        Words are found as they are written and, with `agent`, by their stems in the agent's `language`, if they
        were written since it was set. If very many documents match, only some of them are compared. A run finds
        what its agent finds.
        """
        return await self._client._call(
            "search_documents", (), query={"query": query, "agent": agent, "limit": limit}
        )

    async def get(self, id: str, /) -> models.Document:
        """Read one document with its content."""
        return await self._client._call("get_document", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedDocumentBody]) -> models.Document:
        """Change the fields that the body contains. The limits hold as for a new document.

        A change of title, content or content type keeps the version before it, which counts against the limit,
        too. A document that its agent has deleted is refused with 409: revert it first. A run may not change
        the `agent`.
        """
        return await self._client._call("change_document", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a document with all its versions for good, which makes room for others."""
        return await self._client._call("delete_document", (id,))

    async def versions(self, id: str, /) -> builtins.list[models.Version]:
        """List the last 50 versions of a document, the current one first."""
        return await self._client._call("list_versions", (id,))

    async def version(self, id: str, number: int, /) -> models.FullVersion:
        """Read one version of a document with its content."""
        return await self._client._call(
            "get_version",
            (
                id,
                number,
            ),
        )

    async def revert(self, id: str, number: int, /) -> models.Document:
        """Make an earlier version the current one again, as a new version; nothing is lost.

        A document that its agent has deleted is restored.
        """
        return await self._client._call(
            "revert_document",
            (
                id,
                number,
            ),
        )


class AsyncProjects(AsyncResource):
    """Pieces of work, by which documents can be grouped."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.ProjectBody],
    ) -> models.Project:
        """Create a project, for one agent or for all agents of the organization."""
        return await self._client._call(
            "create_project", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        created_after: dt.datetime | str | None = None,
        created_before: dt.datetime | str | None = None,
        agent: str | None = None,
        status: inputs.ProjectStatusValue | None = None,
    ) -> AsyncPages[models.Project]:
        """List the projects of your organizations, newest first.

        A run lists those of its agent and those for all agents.
        """
        return self._client._pages(
            "list_projects",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "created_after": created_after,
                "created_before": created_before,
                "agent": agent,
                "status": status,
            },
        )

    async def get(self, id: str, /) -> models.Project:
        """Read one project."""
        return await self._client._call("get_project", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.PatchedProjectBody]) -> models.Project:
        """Change the fields that the body contains; the others stay as they are."""
        return await self._client._call("change_project", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a project. Its documents stay, with null as their `project`."""
        return await self._client._call("delete_project", (id,))


class AsyncTraces(AsyncResource):
    """Traces record what happened in a run, or in a program of yours."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.NewTraceBody]
    ) -> models.Trace:
        """Create a trace for work outside the service. Each run of the service already has a trace.

        An id that is taken is refused with 400.
        """
        return await self._client._call("create_trace", (), idempotency_key=idempotency_key, body=body)

    async def page(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        agent: str | None = None,
        template: str | None = None,
        has_error: bool | None = None,
        started_after: dt.datetime | str | None = None,
        started_before: dt.datetime | str | None = None,
    ) -> models.TracePage:
        """List traces, last started first, 50 of them unless `limit` says otherwise.

        A run lists those of its agent.
        """
        return await self._client._call(
            "list_traces",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "agent": agent,
                "template": template,
                "has_error": has_error,
                "started_after": started_after,
                "started_before": started_before,
            },
        )

    async def pages(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        agent: str | None = None,
        template: str | None = None,
        has_error: bool | None = None,
        started_after: dt.datetime | str | None = None,
        started_before: dt.datetime | str | None = None,
    ) -> builtins.list[models.TracePage]:
        """List traces as an array that contains one page; otherwise like the list of traces."""
        return await self._client._call(
            "list_traces_in_array",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "agent": agent,
                "template": template,
                "has_error": has_error,
                "started_after": started_after,
                "started_before": started_before,
            },
        )

    async def get(
        self,
        id: str,
        /,
        *,
        limit: int | None = None,
        after: str | None = None,
        expand: inputs.SpanExpansionValue | None = None,
    ) -> models.FullTrace:
        """Read a trace with one page of its spans. A `Link` header names the next page, if there is one."""
        return await self._client._call(
            "get_trace", (id,), query={"limit": limit, "after": after, "expand": expand}
        )

    async def end(self, id: str, /, **body: Unpack[inputs.TraceEndBody]) -> models.Trace:
        """End a trace; a repetition is harmless.

        The service itself ends the trace of a current run, with the run.
        """
        return await self._client._call("end_trace", (id,), body=body)

    async def waterfall(
        self, id: str, /, *, limit: int | None = None, after: str | None = None
    ) -> models.Waterfall:
        """Read the spans of a trace in short, as columns, to draw them on a time axis.

        A page has up to 5,000 spans, fewer if they take more than about 1 MB; a `Link` header then names the
        next one.
        """
        return await self._client._call("get_waterfall", (id,), query={"limit": limit, "after": after})

    async def transcript(
        self, id: str, /, *, limit: int | None = None, after: str | None = None
    ) -> models.TraceTranscript:
        """Read a trace as a conversation: what the model was told, answered and called, and what it got.

        It is read from the spans that follow OpenTelemetry's GenAI conventions, also those of a harness of your
        own. A page ends after about 1 MiB of them; a `Link` header then names the next one.
        """
        return await self._client._call("get_transcript", (id,), query={"limit": limit, "after": after})


class AsyncSpans(AsyncResource):
    """Spans are the steps of a trace, such as one call of a model or a tool."""

    async def create(
        self,
        body: inputs.NewSpanBody | Sequence[inputs.NewSpanBody],
        /,
        *,
        idempotency_key: str | None = None,
    ) -> models.Span | builtins.list[models.Span]:
        """Create one span, or a list of up to 500 spans of which all or none are stored.

        The answer is a span or a list like the body. A trace may have `limits.spans_per_trace` spans; beyond it
        the answer is 400. Metadata that is too long is refused with 413.
        """
        return await self._client._call("create_spans", (), idempotency_key=idempotency_key, body=body)

    async def get(self, id: str, /) -> models.FullSpan:
        """Read one span with its error and metadata."""
        return await self._client._call("get_span", (id,))

    async def end(self, id: str, /, **body: Unpack[inputs.SpanEndBody]) -> models.FullSpan:
        """End a span; a repetition is harmless."""
        return await self._client._call("end_span", (id,), body=body)


class AsyncSupervisors(AsyncResource):
    """Agents with what they do and why, in the order of your choice."""

    def list(
        self,
        *,
        include_archived: bool | None = None,
        organization: str | None = None,
        purpose: inputs.PurposeValue | None = None,
        tag: Sequence[str] | None = None,
        template: str | None = None,
        status: inputs.AgentStatusValue | None = None,
        parent: str | None = None,
        name: str | None = None,
        search: str | None = None,
        phase: inputs.ShownPhaseValue | None = None,
        agent: Sequence[str] | None = None,
        sort: inputs.AgentSortValue | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncPages[models.SupervisorRow]:
        """List the agents of your organizations with what they do, why, and what it costs.

        The first page counts all that match in `X-Total-Count`, up to 100,000; that number stands for more,
        too.
        """
        return self._client._pages(
            "list_own_supervisors",
            (),
            query={
                "include_archived": include_archived,
                "organization": organization,
                "purpose": purpose,
                "tag": tag,
                "template": template,
                "status": status,
                "parent": parent,
                "name": name,
                "search": search,
                "phase": phase,
                "agent": agent,
                "sort": sort,
                "limit": limit,
                "after": after,
            },
        )


class AsyncOverview(AsyncResource):
    """What the agents of your organizations do, what needs a person, and who wakes next."""

    async def get(self, *, organization: str | None = None) -> models.Overview:
        """Show what the agents of your organizations do, what needs a person, and who wakes next.

        Webhooks are among it where you are an admin or owner.
        """
        return await self._client._call("get_overview", (), query={"organization": organization})


class AsyncAttention(AsyncResource):
    """What failed and needs a person, to be sent again or dismissed."""

    async def act(self, **body: Unpack[inputs.ActOnAttentionBody]) -> models.AttentionActed:
        """Send again what failed, or dismiss it: the given items, or all of a kind that need a person.

        A message that was sent meanwhile is not sent twice, so the call can be repeated. It sends for about
        five seconds, at most 1,000 items; go on with `next`. An item of another organization is refused with
        403, before anything is done. Deliveries to webhooks need the role of an admin.
        """
        return await self._client._call("act_on_attention", (), body=body)


class AsyncUsage(AsyncResource):
    """What the model calls of all agents together used and cost."""

    async def daily(
        self,
        *,
        start_date: dt.datetime | str | dt.date | str | None = None,
        end_date: dt.datetime | str | dt.date | str | None = None,
        agent: str | None = None,
        organization: str | None = None,
        template: str | None = None,
        top_agents: int | None = None,
    ) -> models.DailyUsage:
        """Sum up the model calls of all agents of your organizations, or of some, by UTC day and model.

        Without `start_date` the period is 30 days long. Calls stay in the sums after their agents were deleted.
        """
        return await self._client._call(
            "get_daily_usage",
            (),
            query={
                "start_date": start_date,
                "end_date": end_date,
                "agent": agent,
                "organization": organization,
                "template": template,
                "top_agents": top_agents,
            },
        )


class AsyncTickets(AsyncResource):
    """Tickets with which browsers open event streams."""

    async def create(self, *, idempotency_key: str | None = None, **body: Any) -> models.Ticket:
        """Create a ticket, with which a browser opens event streams: its EventSource cannot send a credential.

        The ticket can open streams of your own for a minute, as `?ticket=`; streams that are open go on. It is
        not valid after its key is deleted or its user has logged out. A repeated answer has null instead of it.
        """
        return await self._client._call("create_ticket", (), idempotency_key=idempotency_key, body=body)


class AsyncAuth(AsyncResource):
    """Signing up, logging in and passwords. The answers hold the token that people send as `Token …`."""

    async def sign_up(self, **body: Unpack[inputs.SignupBody]) -> models.SignedUp:
        """Create a user who owns a new organization, and return a token for the user.

        If the operator has closed the sign-up, the answer is 403; if the address has an account, 400. Too many
        attempts lead to 429.
        """
        return await self._client._call("sign_up", (), body=body)

    async def log_in(self, **body: Unpack[inputs.LoginBody]) -> models.LoggedIn:
        """Return a token for a user; earlier tokens stay valid.

        An unknown address is refused like a wrong password, with 401. Too many refused attempts lead to 429.
        """
        return await self._client._call("log_in", (), body=body)

    async def log_out(self) -> None:
        """Revoke all tokens of the user, including this one. An API key is refused with 403."""
        return await self._client._call("log_out", ())

    async def me(self) -> models.Caller:
        """Return who calls: the user or the API key, and its organizations with its role in each.

        The token of a run may not call this: the context of the run names its agent.
        """
        return await self._client._call("get_caller", ())

    async def change_password(self, **body: Unpack[inputs.PasswordChangeBody]) -> models.FreshToken:
        """Change the password and revoke all tokens but the one in the answer.

        A wrong current password is refused with 400, an API key with 403.
        """
        return await self._client._call("change_password", (), body=body)

    async def reset_password(self, **body: Unpack[inputs.ResetBody]) -> models.FreshToken:
        """Set a new password by a code, and revoke all tokens but the one in the answer.

        An unknown address is refused like a wrong code, with 400. Too many refused attempts lead to 429.
        """
        return await self._client._call("reset_password", (), body=body)

    async def request_reset(self, **body: Unpack[inputs.ResetRequestBody]) -> None:
        """Send a code for a new password to the address, if it has an account.

        The answer does not tell whether it has one. Within ten minutes only one code is sent. If the service
        sends no e-mail, the answer is 403. Too many requests lead to 429.
        """
        return await self._client._call("request_reset", (), body=body)


class AsyncOrganizations(AsyncResource):
    """Organizations own everything else. A user may belong to several."""

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.NewOrganizationBody]
    ) -> models.WholeOrganization:
        """Create an organization that the calling user owns.

        It counts like a sign-up: against `limits.signups_per_hour` of the address, and refused while
        `accounts.signup` is closed. A user owns at most `limits.organizations_per_user`. An API key cannot
        create one.
        """
        return await self._client._call("create_organization", (), idempotency_key=idempotency_key, body=body)

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.WholeOrganization]:
        """List the organizations that you belong to; with an API key, the only one that it acts for."""
        return self._client._pages(
            "list_organizations", (), query={"limit": limit, "offset": offset, "after": after}
        )

    async def get(self, id: str, /) -> models.WholeOrganization:
        """Read one of your organizations."""
        return await self._client._call("get_organization", (id,))

    async def change(
        self, id: str, /, **body: Unpack[inputs.OrganizationChangesBody]
    ) -> models.WholeOrganization:
        """Change the fields that the body contains. Members are refused with 403.

        A pause stops its runs and starts no others. Its end, like a higher cap, wakes agents that are due. If
        the cap refuses models of agents, whose prices are not known, `X-Unpriced-Models` names them.
        """
        return await self._client._call("change_organization", (id,), body=body)


class AsyncMemberships(AsyncResource):
    """The users of an organization and their roles."""

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Membership]:
        """List the members of the organizations that you administer, newest first.

        Members are refused with 403.
        """
        return self._client._pages(
            "list_memberships", (), query={"limit": limit, "offset": offset, "after": after}
        )

    async def get(self, id: str, /) -> models.Membership:
        """Read one membership of an organization that you administer."""
        return await self._client._call("get_membership", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.MembershipChangesBody]) -> models.Membership:
        """Give a member another role.

        A role above your own is refused with 403, and so is the demotion of somebody above you. The last owner
        stays: 400.
        """
        return await self._client._call("change_membership", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Remove a member, who loses access with the next request.

        A member above you is refused with 403. The last owner stays: 400.
        """
        return await self._client._call("delete_membership", (id,))


class AsyncInvites(AsyncResource):
    """Invitations to join an organization."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewInviteBody],
    ) -> models.NewInvite:
        """Create an invite. Only this answer contains the code, which you pass on, unless the service mails it.

        Members are refused with 403, and so is a role above your own.
        """
        return await self._client._call(
            "create_invite", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Invite]:
        """List the invites of the organizations that you administer, accepted and expired ones included."""
        return self._client._pages(
            "list_invites", (), query={"limit": limit, "offset": offset, "after": after}
        )

    async def delete(self, id: str, /) -> None:
        """Delete an invite; its code stops working. An invite to a role above your own is refused with 403."""
        return await self._client._call("delete_invite", (id,))

    async def accept(self, id: str, /, **body: Unpack[inputs.AcceptanceBody]) -> models.SignedUp:
        """Accept an invite with the password of the account, or with a new one if there is no account yet.

        The token of the invited user's account takes the place of the password. A wrong, used or expired code
        is refused with 400, a wrong password of an existing account with 401, the token of another account with
        403.
        """
        return await self._client._call("accept_invite", (id,), body=body)


class AsyncApiKeys(AsyncResource):
    """API keys, with which programs act for an organization."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewApiKeyBody],
    ) -> models.NewApiKey:
        """Create an API key, which acts as an admin of the organization.

        Only this answer contains the key itself. Members are refused with 403.
        """
        return await self._client._call(
            "create_key", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.ApiKey]:
        """List the keys of the organizations that you administer, newest first. Members are refused with 403."""
        return self._client._pages("list_keys", (), query={"limit": limit, "offset": offset, "after": after})

    async def get(self, id: str, /) -> models.ApiKey:
        """Read one API key, without the key itself. Members are refused with 403."""
        return await self._client._call("get_key", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.ApiKeyChangesBody]) -> models.ApiKey:
        """Change an API key. One that is switched off is refused from the next request on."""
        return await self._client._call("change_key", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete an API key, which is refused from the next request on."""
        return await self._client._call("delete_key", (id,))


class AsyncSecrets(AsyncResource):
    """Secrets for the code and the tools of agents. Their values can be written, but not read."""

    async def create(
        self,
        *,
        organization: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.SecretBody],
    ) -> models.Secret:
        """Create a secret of the organization. Members are refused with 403.

        A template's `environment_secrets` and an adapter config's `secret_headers` say who gets it. If the
        organization would have more than `limits.secrets`, the answer is 400.
        """
        return await self._client._call(
            "create_secret", (), organization=organization, idempotency_key=idempotency_key, body=body
        )

    def list(
        self, *, limit: int | None = None, offset: int | None = None, after: str | None = None
    ) -> AsyncPages[models.Secret]:
        """List the secrets of the organizations that you administer, without their values, newest first.

        Secrets of templates are listed at each template. Members are refused with 403.
        """
        return self._client._pages(
            "list_secrets", (), query={"limit": limit, "offset": offset, "after": after}
        )

    async def get(self, id: str, /) -> models.Secret:
        """Read the name and the times of a secret, without its value. Members are refused with 403."""
        return await self._client._call("get_secret", (id,))

    async def change(self, id: str, /, **body: Unpack[inputs.SecretChangesBody]) -> models.Secret:
        """Replace the value of a secret. The next run and the next tool call get the new one."""
        return await self._client._call("change_secret", (id,), body=body)

    async def delete(self, id: str, /) -> None:
        """Delete a secret. Runs and tool calls whose settings still name it fail from now on, and say so."""
        return await self._client._call("delete_secret", (id,))


class AsyncAuditLog(AsyncResource):
    """Who did what to which resource of an organization, when and from where."""

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        created_after: dt.datetime | str | None = None,
        created_before: dt.datetime | str | None = None,
        resource: str | None = None,
        resource_id: str | None = None,
        action: str | None = None,
        actor: str | None = None,
    ) -> AsyncPages[models.AuditEntry]:
        """List the audit logs of the organizations that you administer, newest entries first.

        An entry appears about a second after its effect. Members are refused with 403.
        """
        return self._client._pages(
            "list_audit_log",
            (),
            query={
                "limit": limit,
                "offset": offset,
                "after": after,
                "created_after": created_after,
                "created_before": created_before,
                "resource": resource,
                "resource_id": resource_id,
                "action": action,
                "actor": actor,
            },
        )

    async def export(self, *, organization: str | None = None) -> str:
        """Export the whole audit log of one organization as JSON Lines, oldest entries first.

        `hostsvc verify` proves that nothing is missing. The last line names the head. The export is an entry
        itself, of the next export. Members are refused with 403.
        """
        return await self._client._call("export_audit_log", (), organization=organization)


class AsyncLimits(AsyncResource):
    """The limits of an organization, and how much of each is in use."""

    async def get(self, *, organization: str | None = None) -> models.Limits:
        """Return the limits of one of your organizations, with what is in use of each."""
        return await self._client._call("get_limits", (), organization=organization)


class AsyncService(AsyncResource):
    """Health, status and metrics, for the operators of the service."""

    async def alive(self) -> models.Alive:
        """Answer 200 while the process that answers lives. It needs no database."""
        return await self._client._call("is_alive", ())

    async def ready(self) -> models.Ready:
        """Return the state of the node that answers.

        503 while it drains, while the database has not confirmed it for 1.5 s, and while it cannot write.
        """
        return await self._client._call("is_ready", ())

    async def status(self) -> models.Status:
        """Return the state of the service, and everything that it does in numbers."""
        return await self._client._call("get_status", ())

    async def supervisors(
        self,
        *,
        phase: inputs.PhaseValue | None = None,
        status: inputs.AgentStatusValue | None = None,
        organization: str | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[models.Snapshot]:
        """List up to `limit` agents by id, fewer if the answer would be longer than 1 MiB."""
        return await self._client._call(
            "list_supervisors",
            (),
            query={
                "phase": phase,
                "status": status,
                "organization": organization,
                "name": name,
                "limit": limit,
            },
        )

    async def supervisor(
        self, id: str, /, *, at: dt.datetime | str | None = None
    ) -> models.Snapshot | models.PastSupervisor:
        """Explain what an agent of any organization is doing and why, and what wakes it next.

        With `at`, as it was at that moment.
        """
        return await self._client._call("get_any_supervisor", (id,), query={"at": at})

    async def metrics(self, *, scope: inputs.ScopeValue | None = None) -> str:
        """Return the metrics in the text format of Prometheus, or in OpenMetrics if `Accept` asks for it."""
        return await self._client._call("get_metrics", (), query={"scope": scope})

    def events(
        self,
        *,
        since: int | None = None,
        type: Sequence[str] | None = None,
        organization: str | None = None,
        agent: str | None = None,
        tag: str | None = None,
    ) -> AsyncGenerator[models.Event, None]:
        """Stream what happens to the agents of all organizations, or to those that the filters select.

        The answer is a stream unless `limit`, `wait` or `Accept: application/json` asks for JSON.
        """
        return self._client._events(
            "stream_all_events",
            (),
            since=since,
            query={"type": type, "organization": organization, "agent": agent, "tag": tag},
        )

    async def addresses(self) -> models.ServiceAddresses:
        """Return the paths at which people, programs and operators start.

        A client that prefers HTML, as a browser does, is redirected to the console with 302.
        """
        return await self._client._call("get_service_addresses", ())

    async def api_addresses(self) -> models.ApiAddresses:
        """Return the paths of the API's documentation and of its lists."""
        return await self._client._call("get_api_addresses", ())

    async def schema(self) -> dict[str, Any]:
        """Return this document. It needs no credential."""
        return await self._client._call("get_schema", ())

    async def docs(self) -> str:
        """Return a page that shows this document and can send requests. It loads nothing from elsewhere."""
        return await self._client._call("get_docs", ())


class AsyncHostsvc(AsyncClient):
    """A client of a hostsvc service."""

    def _make_resources(self) -> None:
        self.agents = AsyncAgents(self)
        self.runs = AsyncRuns(self)
        self.notifications = AsyncNotifications(self)
        self.schedules = AsyncSchedules(self)
        self.approvals = AsyncApprovals(self)
        self.grants = AsyncGrants(self)
        self.templates = AsyncTemplates(self)
        self.adapters = AsyncAdapters(self)
        self.adapter_configs = AsyncAdapterConfigs(self)
        self.tools = AsyncTools(self)
        self.hooks = AsyncHooks(self)
        self.webhooks = AsyncWebhooks(self)
        self.deliveries = AsyncDeliveries(self)
        self.contacts = AsyncContacts(self)
        self.messages = AsyncMessages(self)
        self.attachments = AsyncAttachments(self)
        self.documents = AsyncDocuments(self)
        self.projects = AsyncProjects(self)
        self.traces = AsyncTraces(self)
        self.spans = AsyncSpans(self)
        self.supervisors = AsyncSupervisors(self)
        self.overview = AsyncOverview(self)
        self.attention = AsyncAttention(self)
        self.usage = AsyncUsage(self)
        self.tickets = AsyncTickets(self)
        self.auth = AsyncAuth(self)
        self.organizations = AsyncOrganizations(self)
        self.memberships = AsyncMemberships(self)
        self.invites = AsyncInvites(self)
        self.api_keys = AsyncApiKeys(self)
        self.secrets = AsyncSecrets(self)
        self.audit_log = AsyncAuditLog(self)
        self.limits = AsyncLimits(self)
        self.service = AsyncService(self)

    def agent(self, agent: str | models.Agent) -> AsyncAgentHandle:
        """Return what can be asked of one agent, without a request."""
        return AsyncAgentHandle(self, agent if isinstance(agent, str) else agent.id)

    def events(
        self,
        *,
        since: int | None = None,
        type: Sequence[str] | None = None,
        agent: str | None = None,
        tag: str | None = None,
    ) -> AsyncGenerator[models.Event, None]:
        """Stream what happens to all agents of your organizations, or to those that the filters select.

        The answer is a stream unless `limit`, `wait` or `Accept: application/json` asks for JSON.
        """
        return self._events(
            "stream_events", (), since=since, query={"type": type, "agent": agent, "tag": tag}
        )
