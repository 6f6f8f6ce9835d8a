"""Calls of plugins in tests, whose tasks nothing else owns."""

from sidecar.adapters.system import OwnedTasks
from sidecar.operations.plugin_calls import PluginCalls


def plugin_calls(seconds: float = 5.0) -> PluginCalls:
    """Return what asks plugins; calls that run on are told to nobody."""
    return PluginCalls(OwnedTasks(lambda name, error: None), lambda plugin, count: None, seconds)
