"""What an agent can do: its tools, the same for the built-in loop and for outside harnesses."""
