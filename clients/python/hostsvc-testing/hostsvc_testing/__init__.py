"""Test agents of hostsvc: the real rules and registry, a store in memory, and virtual time."""
