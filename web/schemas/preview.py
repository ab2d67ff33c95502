"""Previews: request bodies. The answer is `supervisors.preview.Preview`."""

from storage.model import AgentStatus, Priority, Source
from web.fields import MAX_INT32, Boolean, Choice, Datetime, Integer, Money, ObjectOf, Uuid
from web.request.parsing import Body

MAX_COUNT = 100
MAX_SECONDS_APART = 3600


class PreviewEventBody(Body):
    """Notifications that might come. None is created."""

    source = Choice(Source, load_default=Source.API)
    """Where they come from."""
    priority = Choice(Priority, load_default=Priority.HIGH)
    """Their priority; left out: `high`."""
    scheduled_for = Datetime(allow_none=True, load_default=None)
    """When they would become active, in the agent's time zone if it has no offset; null or a time before they
    come: at once."""
    count = Integer(min_value=1, max_value=MAX_COUNT, load_default=1)
    """How many come one after the other."""
    seconds_apart = Integer(min_value=0, max_value=MAX_SECONDS_APART, load_default=0)
    """How many seconds after the one before it each of them comes."""


class PreviewPatchBody(Body):
    """The fields of an agent that might be changed. Only these have an effect on when the agent wakes."""

    template_id = Uuid(data_key="template", allow_none=True)
    """Another template, whose debounce window and cap count where the agent has none of its own; null:
    none."""
    debounce_window_seconds = Integer(min_value=0, max_value=MAX_INT32, allow_none=True)
    """Another debounce window; null: the template's."""
    max_sleep_hours = Integer(min_value=0, max_value=MAX_INT32, allow_none=True)
    """Another maximum length of a sleep; null: no limit."""
    max_cost_usd_per_day = Money(allow_none=True)
    """Another cap; null: the template's."""
    paused = Boolean()
    """A pause of the agent, or its end."""
    status = Choice(AgentStatus)
    """A run request (`running`), a stop or restore (`sleeping`), or an archive (`archived`)."""
    sleep_until = Datetime(allow_none=True)
    """Another end of its sleep, in the agent's time zone if it has no offset; null: as late as it may be."""


class PreviewBody(Body):
    """A question about the future of an agent. Its parts may be combined."""

    event = ObjectOf(PreviewEventBody, allow_none=True, load_default=None)
    """Notifications that might come, at `at`; null: none."""
    patch = ObjectOf(PreviewPatchBody, allow_none=True, load_default=None)
    """A change that might be made now; null: none."""
    at = Datetime(allow_none=True, load_default=None)
    """A moment at most 31 days ahead, in the agent's time zone if it has no offset; null: now."""
