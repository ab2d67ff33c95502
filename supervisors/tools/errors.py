"""What a tool answers when it cannot do what it was called for."""

from typing import Any


class ToolError(Exception):
    """A tool refused a call. `code` is for programs, the message for the model, `details` for both."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def as_json(self) -> dict[str, Any]:
        """The error as the caller of the tool sees it."""
        return {"code": self.code, "message": self.message, **self.details}
