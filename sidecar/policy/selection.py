"""Selects plugins by name: a default for the platform, and what a vertical overrides. Source: DESIGN section 9."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import asdict

from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import Vertical
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost, SpecT
from sidecar.policy.platform import PLATFORM, PLATFORM_POLICY
from sidecar.policy.specs import (
    AuditSinkSpec,
    ConnectorSpec,
    EpisodeMemorySpec,
    FlagBackendSpec,
    GateClientSpec,
    LifecyclePolicySpec,
    PluginSpec,
    RunnerSpec,
)

ANY_GATE = "*"
"""The key for all gates that have no key of their own."""


class PolicyNames(Struct, frozen=True):
    """The names in `[policy.default]` or `[policy.verticals.<id>]`. None: the platform's default.

    Attributes:
        flags: a flag backend.
        runner: for definitions that name no runner.
        connector: for tools that name no connector.
        memory: an episode memory; only in the default.
        gates: one gate client for all gates, or one for each gate, with `*` for all other gates. For a gate that a
            vertical does not name, the default applies.
        lifecycle: lifecycle policies, in order. The platform's own rules always apply, even if they are not named.
    """

    flags: str | None = None
    runner: str | None = None
    connector: str | None = None
    memory: str | None = None
    gates: str | Mapping[str, str] | None = None
    lifecycle: tuple[str, ...] | None = None


PLATFORM_DEFAULT = PolicyNames(
    flags="memory", runner="grpc", connector="rest", memory="in_process", gates={}, lifecycle=(PLATFORM,)
)
"""The selection if `[policy.default]` is empty. No gate client is selected, so no step that needs a gate is taken."""


class PolicySettings(Struct, frozen=True):
    """The whole `[policy]` section.

    Attributes:
        sinks: audit sinks, from `audit.sinks`. They are the same for all verticals.
    """

    default: PolicyNames = PLATFORM_DEFAULT
    verticals: Mapping[Vertical, PolicyNames] = field(default_factory=lambda: MappingProxyType({}))
    sinks: tuple[str, ...] = ()


class VerticalPlugins(Struct, frozen=True):
    """The descriptors that serve one vertical.

    Attributes:
        gates: by gate, or `*`. A step that needs a gate without an entry is not taken.
        lifecycle: without the platform's own rules, which are always asked, and first.
    """

    flags: FlagBackendSpec
    runner: RunnerSpec
    connector: ConnectorSpec
    gates: Mapping[str, GateClientSpec] = field(default_factory=lambda: MappingProxyType({}))
    lifecycle: tuple[LifecyclePolicySpec, ...] = ()

    @property
    def specs(self) -> tuple[PluginSpec, ...]:
        """Return all descriptors."""
        return (self.flags, self.runner, self.connector, *self.gates.values(), *self.lifecycle)


class PolicyMap(Struct, frozen=True):
    """The selected descriptors by vertical. Created by `resolve_policy`.

    Attributes:
        host: resolves the names of plugins in definitions and tools.
        default: for verticals without an entry, and for objects without a vertical.
        verticals: the complete selection of each vertical, including values of the default.
        memory: stores the conversations of all verticals.
        sinks: each gets every audit event.
    """

    host: PluginHost
    default: VerticalPlugins
    verticals: Mapping[Vertical, VerticalPlugins]
    memory: EpisodeMemorySpec
    sinks: tuple[AuditSinkSpec, ...] = ()

    def of(self, vertical: Vertical | None) -> VerticalPlugins:
        """Return the descriptors of a vertical."""
        return self.default if vertical is None else self.verticals.get(vertical, self.default)

    def runner(self, vertical: Vertical | None, named: str | None, where: str) -> RunnerSpec:
        """Return the runner that a definition names, else its vertical's.

        Raises:
            PluginProblem: there is no such runner; its message contains `where`.
        """
        return self.of(vertical).runner if named is None else self.host.spec(RunnerSpec, named, where)

    def connector(self, vertical: Vertical | None, named: str | None, where: str) -> ConnectorSpec:
        """Return the connector that a tool names, else its vertical's.

        Raises:
            PluginProblem: there is no such connector; its message contains `where`.
        """
        return self.of(vertical).connector if named is None else self.host.spec(ConnectorSpec, named, where)

    @property
    def memory_is_own(self) -> bool:
        """Whether the memory is one of the sidecar's own, and not of an installed plugin."""
        return self.host.is_own(self.memory)

    @property
    def flag_backends(self) -> tuple[FlagBackendSpec, ...]:
        """Every flag backend in use, each once: the default, then by name."""
        # By name, because verticals share a backend: two objects for one name would fetch the same flags twice.
        used = {each.flags.name: each.flags for each in (self.default, *self.verticals.values())}
        return tuple(used[name] for name in self.flag_routes.backends)

    @property
    def flag_routes(self) -> FlagRoutes:
        """Which flag backend answers for which vertical."""
        by_vertical = {vertical: plugins.flags.name for vertical, plugins in self.verticals.items()}
        return FlagRoutes(self.default.flags.name, MappingProxyType(by_vertical))

    @property
    def chosen(self) -> frozenset[tuple[PluginKind, str]]:
        """What the settings use, for `PluginHost.inventory`."""
        selections = (self.default, *self.verticals.values())
        specs = [self.memory, PLATFORM_POLICY, *self.sinks, *(spec for each in selections for spec in each.specs)]
        return frozenset((spec.kind, spec.name) for spec in specs)


def resolve_policy(settings: PolicySettings, host: PluginHost) -> PolicyMap:
    """Find the descriptor of each name in the `[policy]` section and in `audit.sinks`.

    Raises:
        PluginProblem: a name that no loaded plugin offers; says which setting, and lists the choices.
    """
    filled = _filled(settings.default, PLATFORM_DEFAULT)
    default = _resolved(filled, "policy.default", host)
    verticals = {
        vertical: _resolved(_filled(names, filled), f"policy.verticals.{vertical}", host)
        for vertical, names in settings.verticals.items()
    }
    memory = _spec(host, EpisodeMemorySpec, filled.memory, "policy.default.memory")
    sinks = tuple(_spec(host, AuditSinkSpec, name, "audit.sinks") for name in dict.fromkeys(settings.sinks))
    return PolicyMap(host, default, MappingProxyType(verticals), memory, sinks)


def _resolved(full: PolicyNames, where: str, host: PluginHost) -> VerticalPlugins:
    gates = _by_gate(full.gates)
    # The platform's rules are asked by the rollout itself. If they could be left out here, a setting could switch them
    # off.
    own = [name for name in dict.fromkeys(full.lifecycle or ()) if name != PLATFORM]
    return VerticalPlugins(
        flags=_spec(host, FlagBackendSpec, full.flags, f"{where}.flags"),
        runner=_spec(host, RunnerSpec, full.runner, f"{where}.runner"),
        connector=_spec(host, ConnectorSpec, full.connector, f"{where}.connector"),
        gates=MappingProxyType(
            {gate: _spec(host, GateClientSpec, name, f"{where}.gates") for gate, name in gates.items()}
        ),
        lifecycle=tuple(_spec(host, LifecyclePolicySpec, name, f"{where}.lifecycle") for name in own),
    )


def _filled(names: PolicyNames, otherwise: PolicyNames) -> PolicyNames:
    said = asdict(names)
    full = {name: getattr(otherwise, name) if value is None else value for name, value in said.items()}
    own = _by_gate(names.gates)
    # A vertical's `*` replaces the whole default; otherwise a gate of the default would win over the vertical's own
    # `*`.
    inherited = {} if ANY_GATE in own else _by_gate(otherwise.gates)
    return PolicyNames(**{**full, "gates": {**inherited, **own}})


def _by_gate(gates: str | Mapping[str, str] | None) -> Mapping[str, str]:
    return {ANY_GATE: gates} if isinstance(gates, str) else gates or {}


def _spec(host: PluginHost, spec_type: type[SpecT], name: str | None, where: str) -> SpecT:
    return host.spec(spec_type, name or "", where)
