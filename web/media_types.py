"""The media type of server-sent events, and the header by which a client resumes them."""

EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
