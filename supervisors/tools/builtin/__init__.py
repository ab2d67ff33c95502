"""The agents' tools, the same for the built-in harness and for external ones."""
