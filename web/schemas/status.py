"""What operators ask the supervisors for."""

from supervisors.states import Phase
from web.fields import Choice, Integer, Uuid
from web.parsing import Body

DEFAULT_LIMIT = 100


class SupervisorQuery(Body):
    phase = Choice(Phase, load_default=None)
    organization = Uuid(load_default=None)
    limit = Integer(least=1, most=1000, load_default=DEFAULT_LIMIT)
