"""An id that names nothing, and the message about it."""

UNKNOWN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
UNKNOWN_ID_MESSAGES = [f'Invalid pk "{UNKNOWN_ID}" - object does not exist.']
