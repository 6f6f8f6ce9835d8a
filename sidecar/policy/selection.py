"""Chooses plugins by name: the platform's default, and per vertical what differs. Source: DESIGN section 9."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sidecar.core.binding.flags import FlagRoutes
from sidecar.core.identifiers import Vertical
from sidecar.policy.loading import PluginHost, SpecT
from sidecar.policy.specs import ConnectorSpec, EpisodeMemorySpec, FlagBackendSpec, PluginKind, RunnerSpec


@dataclass(frozen=True, slots=True)
class PolicyNames:
    """What `[policy.default]` or `[policy.verticals.<id>]` names. None: the platform's default.

    Attributes:
        flags: a flag backend.
        runner: for definitions that name none.
        connector: for tools that name none.
        memory: an episode memory; of the default only.
    """

    flags: str | None = None
    runner: str | None = None
    connector: str | None = None
    memory: str | None = None


PLATFORM_DEFAULT = PolicyNames(flags="memory", runner="grpc", connector="rest", memory="in_process")
"""What holds where `[policy.default]` says nothing."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The whole `[policy]` section."""

    default: PolicyNames = PLATFORM_DEFAULT
    verticals: Mapping[Vertical, PolicyNames] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class VerticalPlugins:
    """The descriptors that serve one vertical."""

    flags: FlagBackendSpec
    runner: RunnerSpec
    connector: ConnectorSpec


@dataclass(frozen=True, slots=True)
class PolicyMap:
    """Which descriptors serve whom. Made by `resolve_policy`.

    Attributes:
        host: where a name given by a definition or tool is looked up.
        default: for verticals without an entry, and for what belongs to no vertical.
        verticals: complete, the default filled in.
        memory: keeps the conversations, of all verticals.
    """

    host: PluginHost
    default: VerticalPlugins
    verticals: Mapping[Vertical, VerticalPlugins]
    memory: EpisodeMemorySpec

    def of(self, vertical: Vertical | None) -> VerticalPlugins:
        """Return the descriptors of a vertical."""
        return self.default if vertical is None else self.verticals.get(vertical, self.default)

    def runner(self, vertical: Vertical | None, named: str | None, where: str) -> RunnerSpec:
        """Return the runner a definition names, else its vertical's. Raises `PluginProblem`, which says `where`."""
        return self.of(vertical).runner if named is None else self.host.spec(RunnerSpec, named, where)

    def connector(self, vertical: Vertical | None, named: str | None, where: str) -> ConnectorSpec:
        """Return the connector a tool names, else its vertical's. Raises `PluginProblem`, which says `where`."""
        return self.of(vertical).connector if named is None else self.host.spec(ConnectorSpec, named, where)

    @property
    def flag_backends(self) -> tuple[FlagBackendSpec, ...]:
        """Every flag backend in use, each once: the default, then by name."""
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
        everybody = (self.default, *self.verticals.values())
        specs = [self.memory, *(spec for each in everybody for spec in (each.flags, each.runner, each.connector))]
        return frozenset((spec.kind, spec.name) for spec in specs)


def resolve_policy(settings: PolicySettings, host: PluginHost) -> PolicyMap:
    """Look every name of the `[policy]` section up.

    Raises:
        PluginProblem: a name that no loaded plugin offers; says which setting, and lists the choices.
    """
    default = _resolved(settings.default, PLATFORM_DEFAULT, "policy.default", host)
    filled = _filled(settings.default, PLATFORM_DEFAULT)
    verticals = {
        vertical: _resolved(names, filled, f"policy.verticals.{vertical}", host)
        for vertical, names in settings.verticals.items()
    }
    memory = _spec(host, EpisodeMemorySpec, filled.memory, "policy.default.memory")
    return PolicyMap(host, default, MappingProxyType(verticals), memory)


def _resolved(names: PolicyNames, otherwise: PolicyNames, where: str, host: PluginHost) -> VerticalPlugins:
    full = _filled(names, otherwise)
    return VerticalPlugins(
        flags=_spec(host, FlagBackendSpec, full.flags, f"{where}.flags"),
        runner=_spec(host, RunnerSpec, full.runner, f"{where}.runner"),
        connector=_spec(host, ConnectorSpec, full.connector, f"{where}.connector"),
    )


def _filled(names: PolicyNames, otherwise: PolicyNames) -> PolicyNames:
    return PolicyNames(
        flags=otherwise.flags if names.flags is None else names.flags,
        runner=otherwise.runner if names.runner is None else names.runner,
        connector=otherwise.connector if names.connector is None else names.connector,
        memory=otherwise.memory if names.memory is None else names.memory,
    )


def _spec(host: PluginHost, spec_type: type[SpecT], name: str | None, where: str) -> SpecT:
    return host.spec(spec_type, name or "", where)
