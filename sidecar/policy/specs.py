"""Descriptors: the objects that the hooks of a plugin return, one class for each kind of plugin.

A descriptor has a name, a summary and a factory. Nothing is connected, read or started until the settings select the
descriptor by its name and the sidecar calls the factory.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from msgspec import Struct, field

from sidecar.policy.audit import AuditSink
from sidecar.policy.kinds import PluginKind
from sidecar.policy.lifecycle import GateClient, LifecyclePolicy
from sidecar.policy.memory import EpisodeMemory
from sidecar.policy.protocols import Connector, FlagBackend, Runner

NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({"type": "object", "additionalProperties": False})
"""JSON schema of a plugin without settings."""

SUPPORTED_MAJORS: Final[Mapping[PluginKind, tuple[int, ...]]] = MappingProxyType(
    {
        PluginKind.FLAG_BACKEND: (1,),
        PluginKind.RUNNER: (1,),
        PluginKind.CONNECTOR: (1,),
        PluginKind.EPISODE_MEMORY: (1,),
        PluginKind.GATE_CLIENT: (1,),
        PluginKind.LIFECYCLE_POLICY: (1,),
        PluginKind.AUDIT_SINK: (1,),
    }
)
"""The major versions of each contract that this sidecar supports, the newest last.

A new version is added and the old one is kept, so that installed plugins continue to work.
"""


class PluginSpec(Struct, frozen=True, kw_only=True):
    """The common fields of all descriptors.

    Attributes:
        name: the name by which settings choose the plugin; lower-case letters, digits, `-` and `_`, at most 60
            characters.
        contract: kind and major version, e.g. `flag-backend/1`.
        summary: one line for `sidecar plugins list`.
        config_schema: JSON schema of its settings: an object schema that refuses unknown keys.
        capabilities: optional abilities, by their names in the conformance suite of this kind of plugin.
    """

    kind: ClassVar[PluginKind]

    name: str
    contract: str
    summary: str
    config_schema: Mapping[str, Any] = field(default_factory=lambda: NO_SETTINGS)
    capabilities: frozenset[str] = field(default_factory=frozenset)


class FlagBackendSpec(PluginSpec, frozen=True, kw_only=True):
    """Describes a flag backend; the factory gets the settings, checked against `config_schema`."""

    kind: ClassVar[PluginKind] = PluginKind.FLAG_BACKEND

    factory: Callable[[Mapping[str, Any]], FlagBackend]


class RunnerConfig(Struct, frozen=True):
    """The arguments for creating a runner.

    Attributes:
        settings: the settings of the runner, checked against `config_schema`.
        target: address of the runner host, from the definition or the settings, e.g. `unix:/run/shop.sock`; None: the
            runner's default.
        gateway_address: address at which sub-agents call the tool gateway; empty if they run in this process.
    """

    settings: Mapping[str, Any]
    target: str | None
    gateway_address: str


class RunnerSpec(PluginSpec, frozen=True, kw_only=True):
    """Describes a runner; the factory is called once for each target."""

    kind: ClassVar[PluginKind] = PluginKind.RUNNER

    factory: Callable[[RunnerConfig], Runner]


class ConnectorSpec(PluginSpec, frozen=True, kw_only=True):
    """Describes a connector; the factory gets the settings, checked against `config_schema`.

    Attributes:
        warm_up: does slow work before the factory is called, such as importing a library, so that the factory does not
            block the event loop. It is called with the unchecked settings, in another thread, before a sub-agent needs
            the connector. Its exceptions are ignored, because the factory will raise them again. It is not called for
            an installed plugin, whose factory runs in a thread of its own. None: the factory is fast.
        needs_user_token: returns, for the unchecked settings, whether the connector needs the tokens of users. The
            sidecar keeps the tokens only then. The connector's attribute `needs_user_token` must have the same value.
            None: the connector never needs them.
    """

    kind: ClassVar[PluginKind] = PluginKind.CONNECTOR

    factory: Callable[[Mapping[str, Any]], Connector]
    warm_up: Callable[[Mapping[str, Any]], object] | None = None
    needs_user_token: Callable[[Mapping[str, Any]], bool] | None = None


class EpisodeMemorySpec(PluginSpec, frozen=True, kw_only=True):
    """Describes an episode memory; the factory gets the settings, checked against `config_schema`."""

    kind: ClassVar[PluginKind] = PluginKind.EPISODE_MEMORY

    factory: Callable[[Mapping[str, Any]], EpisodeMemory]


class GateClientSpec(PluginSpec, frozen=True, kw_only=True):
    """Describes a gate client; the factory gets the settings, checked, once for each vertical that names it."""

    kind: ClassVar[PluginKind] = PluginKind.GATE_CLIENT

    factory: Callable[[Mapping[str, Any]], GateClient]


class LifecyclePolicySpec(PluginSpec, frozen=True, kw_only=True):
    """Describes a lifecycle policy; the factory gets the settings, checked, once for each vertical that names it."""

    kind: ClassVar[PluginKind] = PluginKind.LIFECYCLE_POLICY

    factory: Callable[[Mapping[str, Any]], LifecyclePolicy]


class AuditSinkSpec(PluginSpec, frozen=True, kw_only=True):
    """Describes an audit sink; the factory gets the settings, checked against `config_schema`."""

    kind: ClassVar[PluginKind] = PluginKind.AUDIT_SINK

    factory: Callable[[Mapping[str, Any]], AuditSink]


SPEC_TYPES: Final[Mapping[str, type[PluginSpec]]] = MappingProxyType(
    {
        "sidecar_flag_backends": FlagBackendSpec,
        "sidecar_runners": RunnerSpec,
        "sidecar_connectors": ConnectorSpec,
        "sidecar_episode_memories": EpisodeMemorySpec,
        "sidecar_gate_clients": GateClientSpec,
        "sidecar_lifecycle_policies": LifecyclePolicySpec,
        "sidecar_audit_sinks": AuditSinkSpec,
    }
)
"""The class of the descriptors that each hook of `hookspecs.py` returns."""
