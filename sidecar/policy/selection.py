"""Selects the plugins that the settings name: a default, and overrides for each vertical. Source: DESIGN section 9.

`[policy.default]` names plugins for all verticals, `[policy.verticals.<id>]` for one. `resolve_policy` finds their
descriptors (`PluginSpec`) at the start.
"""

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
    """The plugin names in `[policy.default]` or `[policy.verticals.<id>]`.

    None in a vertical means the name in `[policy.default]`; None there means the name in `PLATFORM_DEFAULT`.

    Attributes:
        flags: a flag backend.
        runner: for definitions that name no runner.
        connector: for tools that name no connector.
        memory: an episode memory; only in the default.
        gates: one gate client for all gates, or one for each gate, with `*` for all other gates. For a gate that a
            vertical does not name, the default applies.
        lifecycle: lifecycle policies, in order. The platform's rules always apply, even if they are not named.
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
    """The whole `[policy]` section, and the names of audit sinks.

    Attributes:
        default: names for all verticals.
        verticals: names that override the default, by vertical.
        sinks: audit sinks, from `audit.sinks`. They are the same for all verticals.
    """

    default: PolicyNames = PLATFORM_DEFAULT
    verticals: Mapping[Vertical, PolicyNames] = field(default_factory=lambda: MappingProxyType({}))
    sinks: tuple[str, ...] = ()


class VerticalPlugins(Struct, frozen=True):
    """The descriptors of the plugins that serve one vertical.

    Attributes:
        gates: the client of each gate; with the key `*`, of all other gates. A step that needs a gate without a client
            is not taken.
        lifecycle: without the platform's rules, which are always applied, and first.
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
        host: all loaded plugins; resolves the names of plugins in definitions and tools.
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
        # Entries of verticals are complete: they include the values of the default.
        return self.default if vertical is None else self.verticals.get(vertical, self.default)

    def runner(self, vertical: Vertical | None, named: str | None, where: str) -> RunnerSpec:
        """Return the runner `named` by a definition; if that is None, the runner of its vertical.

        Raises:
            PluginProblem: no loaded plugin has this name. The message contains `where`, the place that names it.
        """
        return self.of(vertical).runner if named is None else self.host.spec(RunnerSpec, named, where)

    def connector(self, vertical: Vertical | None, named: str | None, where: str) -> ConnectorSpec:
        """Return the connector `named` by a tool; if that is None, the connector of its vertical.

        Raises:
            PluginProblem: no loaded plugin has this name. The message contains `where`, the place that names it.
        """
        return self.of(vertical).connector if named is None else self.host.spec(ConnectorSpec, named, where)

    @property
    def memory_is_own(self) -> bool:
        """Whether the episode memory is built into the sidecar, and not of an installed plugin."""
        return self.host.is_own(self.memory)

    @property
    def flag_backends(self) -> tuple[FlagBackendSpec, ...]:
        """Every flag backend in use, each once, in the order of `flag_routes.backends`."""
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
        """Kind and name of each plugin that the settings select, for `PluginHost.inventory`."""
        selections = (self.default, *self.verticals.values())
        specs = [self.memory, PLATFORM_POLICY, *self.sinks, *(spec for each in selections for spec in each.specs)]
        return frozenset((spec.kind, spec.name) for spec in specs)


def resolve_policy(settings: PolicySettings, host: PluginHost) -> PolicyMap:
    """Find the descriptor of each name in the `[policy]` section and in `audit.sinks`.

    Raises:
        PluginProblem: no loaded plugin has the name. The message says which setting is wrong and lists the choices.
    """
    default_names = _with_defaults(settings.default, PLATFORM_DEFAULT)
    default = _descriptors(default_names, "policy.default", host)
    verticals = {
        vertical: _descriptors(_with_defaults(names, default_names), f"policy.verticals.{vertical}", host)
        for vertical, names in settings.verticals.items()
    }
    # Only in the default: an episode may have turns of several verticals.
    memory = _spec(host, EpisodeMemorySpec, default_names.memory, "policy.default.memory")
    # A name may be listed twice by mistake: two sinks of one name would deliver each event twice.
    sinks = tuple(_spec(host, AuditSinkSpec, name, "audit.sinks") for name in dict.fromkeys(settings.sinks))
    return PolicyMap(host, default, MappingProxyType(verticals), memory, sinks)


def _descriptors(names: PolicyNames, where: str, host: PluginHost) -> VerticalPlugins:
    gates = _by_gate(names.gates)
    # The rollout itself applies the platform's rules first, to every step. If they were part of this list, a setting
    # without their name would switch them off.
    without_platform = [name for name in dict.fromkeys(names.lifecycle or ()) if name != PLATFORM]
    return VerticalPlugins(
        flags=_spec(host, FlagBackendSpec, names.flags, f"{where}.flags"),
        runner=_spec(host, RunnerSpec, names.runner, f"{where}.runner"),
        connector=_spec(host, ConnectorSpec, names.connector, f"{where}.connector"),
        gates=MappingProxyType(
            {gate: _spec(host, GateClientSpec, name, f"{where}.gates") for gate, name in gates.items()}
        ),
        lifecycle=tuple(_spec(host, LifecyclePolicySpec, name, f"{where}.lifecycle") for name in without_platform),
    )


def _with_defaults(names: PolicyNames, defaults: PolicyNames) -> PolicyNames:
    configured = asdict(names)
    # An empty list is a choice and stays; only None is replaced.
    complete = {name: getattr(defaults, name) if value is None else value for name, value in configured.items()}
    named = _by_gate(names.gates)
    # A vertical's `*` replaces all gates of the default. Otherwise a gate that the default names would get the
    # default's client, although the vertical chose one for all gates.
    inherited = {} if ANY_GATE in named else _by_gate(defaults.gates)
    return PolicyNames(**{**complete, "gates": {**inherited, **named}})


def _by_gate(gates: str | Mapping[str, str] | None) -> Mapping[str, str]:
    return {ANY_GATE: gates} if isinstance(gates, str) else gates or {}


def _spec(host: PluginHost, spec_type: type[SpecT], name: str | None, where: str) -> SpecT:
    # An empty name matches no plugin, so the error lists the choices.
    return host.spec(spec_type, name or "", where)
