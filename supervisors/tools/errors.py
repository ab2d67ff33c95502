"""The error of a tool call, as the model sees it."""

from typing import Any

UNKNOWN_TOOL = "unknown_tool"


class ToolError(Exception):
    """A tool call failed. `code` is for programs, the message for the model, `details` for both."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        message = message.replace("\0", "\ufffd")  # it is stored in a trace, and PostgreSQL's text has no NUL
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def as_json(self) -> dict[str, Any]:
        """Return the error as the caller of the tool sees it."""
        return {"code": self.code, "message": self.message, **self.details}
