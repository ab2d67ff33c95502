"""Test agents of hostsvc: the real rules and registry, a store in memory, and virtual time."""

from hostsvc_testing.agent_run import AgentRun
from hostsvc_testing.script import Script, script
from hostsvc_testing.world import World, WorldAgent

__all__ = ["AgentRun", "Script", "World", "WorldAgent", "script"]
