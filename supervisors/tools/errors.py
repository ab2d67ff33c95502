"""What a tool answers when it cannot do what it was called for."""

from typing import Any

UNKNOWN_TOOL = "unknown_tool"


class ToolError(Exception):
    """A tool refused a call. `code` is for programs, the message for the model, `details` for both."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        message = message.replace("\0", "\ufffd")  # it is kept in a trace, as a text of PostgreSQL
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def as_json(self) -> dict[str, Any]:
        """The error as the caller of the tool sees it."""
        return {"code": self.code, "message": self.message, **self.details}
