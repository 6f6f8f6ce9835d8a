"""The kinds of plugins."""

from enum import StrEnum, unique


@unique
class PluginKind(StrEnum):
    """The kind of a plugin; also the first part of its contract, as in `runner/1`."""

    FLAG_BACKEND = "flag-backend"
    RUNNER = "runner"
    CONNECTOR = "connector"
    EPISODE_MEMORY = "episode-memory"
    GATE_CLIENT = "gate-client"
    LIFECYCLE_POLICY = "lifecycle-policy"
    AUDIT_SINK = "audit-sink"
