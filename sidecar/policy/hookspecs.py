"""The hooks that a plugin implements. Each returns descriptors; none does anything else.

A plugin is a module or object whose functions are marked with `hookimpl`, offered under the entry point group
`sidecar.plugins` and switched on by name in `plugins.enabled`:

    from sidecar.policy.hookspecs import hookimpl
    from sidecar.policy.specs import FlagBackendSpec

    @hookimpl
    def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
        return [FlagBackendSpec(name="mine", contract="flag-backend/1", summary="...", factory=MyFlags)]

`registration.py` calls the hooks. The order of plugins never matters. Hook wrappers (pluggy) are refused, so that no
plugin sees or changes the descriptors of another.
"""

from collections.abc import Sequence
from typing import Final

import pluggy

from sidecar.policy.specs import (
    AuditSinkSpec,
    ConnectorSpec,
    EpisodeMemorySpec,
    FlagBackendSpec,
    GateClientSpec,
    LifecyclePolicySpec,
    RunnerSpec,
)

PROJECT: Final = "sidecar"

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


@hookspec
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:  # type: ignore[empty-body]  # pluggy: a spec has no body
    """Offer flag backends by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start.
    Chosen: by `policy.default.flags` and `policy.verticals.<id>.flags`; an unknown name stops the start and lists the
        choices.
    May block or await: no. The object that the factory makes is called in the background, with a deadline. Decisions
        read the flag states that it returned last, and never wait (PF1-NFR-4b, TN-8).
    """


@hookspec
def sidecar_runners() -> Sequence[RunnerSpec]:  # type: ignore[empty-body]  # pluggy: a spec has no body
    """Offer runners, which execute sub-agents, by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start.
    Chosen: by a definition's `runner`, else by `policy.verticals.<id>.runner`, else by `policy.default.runner`; an
        unknown name in the settings stops the start and lists the choices.
    May block or await: no. The object that the factory makes runs attempts, each with a deadline and behind a circuit
        breaker for its target. An exception fails only the attempt that raised it.
    """


@hookspec
def sidecar_connectors() -> Sequence[ConnectorSpec]:  # type: ignore[empty-body]  # pluggy: a spec has no body
    """Offer connectors, which carry requests to data services, by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start.
    Chosen: by a tool's `connector`, else by `policy.verticals.<id>.connector`, else by `policy.default.connector`; an
        unknown name in the settings stops the start and lists the choices.
    May block or await: no. The object that the factory makes carries requests of the tool gateway. Only the gateway
        fills in the principal (the user's id) and parses the answer (PC2-FR-11, TN-30).
    """


@hookspec
def sidecar_episode_memories() -> Sequence[EpisodeMemorySpec]:  # type: ignore[empty-body]  # pluggy: a spec has no body
    """Offer episode memories, which keep conversations, by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start.
    Chosen: by `policy.default.memory`, for all verticals together, since an episode goes through several; an unknown
        name stops the start and lists the choices.
    May block or await: no. Each call of the object that the factory makes has a deadline. After the deadline the model
        gets no history, and the turn continues (PC1-D-12).
    """


@hookspec
def sidecar_gate_clients() -> Sequence[GateClientSpec]:  # type: ignore[empty-body]  # pluggy: a spec has no body
    """Offer gate clients, which ask whether a step of a rollout may be taken, by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start.
    Chosen: by `policy.default.gates` and `policy.verticals.<id>.gates`, one name for all gates or one for each; an
        unknown name stops the start and lists the choices. A step that needs a gate without a client is not taken.
    May block or await: no. The object that the factory makes is called with a deadline, outside of turns. Without a
        valid answer the step is not taken. Steps of verticals with other clients are not affected (TN-78).
    """


@hookspec
def sidecar_lifecycle_policies() -> Sequence[LifecyclePolicySpec]:  # type: ignore[empty-body]  # pluggy: as above
    """Offer lifecycle policies, which may forbid a step of a rollout, by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start. The name `platform` is taken.
    Chosen: by `policy.default.lifecycle` and `policy.verticals.<id>.lifecycle`, lists of names; an unknown name stops
        the start and lists the choices. The platform's own rules hold whether they are named or not.
    May block or await: no. The object that the factory makes decides within a second, from its arguments alone. An
        exception denies the step. The policy may deny the step or require more gates. It can neither remove a gate of
        the platform nor give a definition to more users.
    """


@hookspec
def sidecar_audit_sinks() -> Sequence[AuditSinkSpec]:  # type: ignore[empty-body]  # pluggy: a spec has no body
    """Offer audit sinks, which receive the audit events of rollouts, by name.

    Called: once, at start, before the server accepts calls.
    Several plugins: all are called; two specs with one name stop the start.
    Chosen: by `audit.sinks`, a list for the whole platform; an unknown name stops the start and lists the choices. Each
        sink in the list gets every event.
    May block or await: no. The object that the factory makes gets events in the background, with a deadline. An event
        that it does not accept stays on record, and is sent to this sink again (PF1-FR-10c, TN-85).
    """


__all__: Sequence[str] = (
    "PROJECT",
    "hookimpl",
    "hookspec",
    "sidecar_audit_sinks",
    "sidecar_connectors",
    "sidecar_episode_memories",
    "sidecar_flag_backends",
    "sidecar_gate_clients",
    "sidecar_lifecycle_policies",
    "sidecar_runners",
)
