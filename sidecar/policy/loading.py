"""Loads plugins: the built-ins, and the installed ones that the settings enable.

`load_plugins` returns a `PluginHost` with every descriptor; there is no global state. Entry points are imported one by
one. An error of one plugin does not affect the others.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct

from sidecar.policy.entry_points import PluginOffer, PluginSelection, list_offers, select_offers
from sidecar.policy.kinds import PluginKind
from sidecar.policy.problems import Incompatible, PluginProblem, choices_for, guarded
from sidecar.policy.specs import SPEC_TYPES, PluginSpec

BUILT_IN: Final = "built in"

SpecT = TypeVar("SpecT", bound=PluginSpec)


@unique
class PluginState(StrEnum):
    """The state of a plugin in the inventory."""

    ACTIVE = "active"
    """Loaded, and the settings select it."""
    AVAILABLE = "available"
    """Loaded, but the settings do not select it; a definition or a tool may name it."""
    NOT_SELECTED = "not selected"
    """Installed, but not in `plugins.enabled`; it is never imported."""
    BROKEN = "broken"
    """Enabled, but it cannot be loaded."""
    INCOMPATIBLE = "incompatible"
    """Enabled, but written for a contract that this sidecar does not speak."""


class InventoryRow(Struct, frozen=True):
    """One line of `sidecar plugins list`.

    Attributes:
        name: the name of the descriptor; for a plugin that was not loaded, the name of its entry point.
        kind, contract, summary: from the descriptor; empty for a plugin that was not loaded.
        distribution: `built in` for plugins of the sidecar itself.
        error: why the plugin is broken or incompatible; empty otherwise.
    """

    name: str
    kind: str
    contract: str
    distribution: str
    version: str
    state: PluginState
    summary: str = ""
    error: str = ""


class Registered(Struct, frozen=True):
    """A descriptor and its origin.

    Attributes:
        distribution: `built in` for plugins of the sidecar itself.
        version: the version of the distribution; empty for a built-in plugin.
        where: the entry point or module, for messages.
        plugin: for an instance, the name of its plugin; empty for the plugin itself.
    """

    spec: PluginSpec
    distribution: str
    version: str
    where: str
    plugin: str = ""


class PluginHost(Struct, frozen=True):
    """Every loaded descriptor, and the installed plugins that were not loaded.

    Attributes:
        registered: the loaded descriptors by kind and name. `with_instances` adds the instances, under their own names.
        not_selected: installed plugins that are not enabled and were never imported.
        failed: enabled plugins that could not be loaded, with the reason. Only `survey_plugins` returns such a host.
    """

    registered: Mapping[tuple[PluginKind, str], Registered]
    not_selected: tuple[PluginOffer, ...] = ()
    failed: tuple[tuple[PluginOffer, PluginProblem], ...] = ()

    def modules(self) -> Mapping[str, str]:
        """Return the distribution of each installed plugin, by the top-level module of its factory.

        The stall detector names the plugin whose code blocks the event loop.
        """
        installed = (one for one in self.registered.values() if one.distribution != BUILT_IN)
        factories = ((getattr(one.spec, "factory", None), one.distribution) for one in installed)
        # By the factory, because a hook may be in another module than the code that runs later.
        return {getattr(factory, "__module__", "").partition(".")[0]: name for factory, name in factories}

    def is_own(self, spec: PluginSpec) -> bool:
        """Return whether a descriptor belongs to a built-in plugin or to an instance of one."""
        entry = self.registered.get((spec.kind, spec.name))
        return entry is not None and entry.distribution == BUILT_IN

    def names(self, kind: PluginKind) -> tuple[str, ...]:
        """Return the names of all plugins and instances of a kind, sorted."""
        return tuple(sorted(name for of_kind, name in self.registered if of_kind is kind))

    def plugin_of(self, spec: PluginSpec) -> str:
        """Return the name of the plugin to which a descriptor belongs; it differs from `spec.name` for an instance."""
        entry = self.registered.get((spec.kind, spec.name))
        return (entry.plugin if entry else "") or spec.name

    def spec(self, spec_type: type[SpecT], name: str, where: str) -> SpecT:
        """Return the descriptor with a kind and name.

        Args:
            spec_type: the class of descriptors of this kind.
            name: the name of a plugin or an instance.
            where: the setting that contains the name, e.g. `policy.default.flags`.

        Raises:
            PluginProblem: no plugin has this name. The message lists the choices.
        """
        entry = self.registered.get((spec_type.kind, name))
        if entry is None or not isinstance(entry.spec, spec_type):
            raise PluginProblem(
                f"there is no {spec_type.kind} named `{name}`",
                where=where,
                remedy=f"{choices_for(name, self.names(spec_type.kind))}; "
                "an installed plugin counts once `plugins.enabled` names it",
            )
        return entry.spec

    def inventory(self, chosen: Collection[tuple[PluginKind, str]] = ()) -> tuple[InventoryRow, ...]:
        """Return a row for each descriptor, then for each plugin that failed, then for each that was not selected.

        Args:
            chosen: kind and name of each plugin and instance that the settings select.
        """
        # A plugin also counts as chosen if only an instance of it is: its code then runs.
        of_chosen = [(kind, one.plugin) for (kind, name), one in self.registered.items() if (kind, name) in chosen]
        used = frozenset(chosen).union(of_chosen)
        loaded = [
            InventoryRow(
                name=name,
                kind=kind,
                contract=one.spec.contract,
                distribution=one.distribution,
                version=one.version,
                state=PluginState.ACTIVE if (kind, name) in used else PluginState.AVAILABLE,
                summary=f"instance of `{one.plugin}`: {one.spec.summary}" if one.plugin else one.spec.summary,
            )
            for (kind, name), one in sorted(self.registered.items())
        ]
        failed = [_unloaded(offer, _state_after(problem), str(problem)) for offer, problem in self.failed]
        return (*loaded, *failed, *(_unloaded(offer, PluginState.NOT_SELECTED) for offer in self.not_selected))


def load_plugins(
    built_ins: Sequence[object], selection: PluginSelection, offers: Sequence[PluginOffer] | None = None
) -> PluginHost:
    """Load the built-ins and the selected plugins; for the start of the sidecar.

    Args:
        built_ins: modules or objects with marked hooks, from the composition root.
        selection: the installed plugins that the settings enable.
        offers: the installed plugins; None: read them from the metadata, if `selection` enables any.

    Raises:
        PluginProblem: a selected plugin is missing, broken or incompatible, or two descriptors share a name.
    """
    # Without an enabled plugin, the metadata of all installed distributions need not be read, which takes time.
    none_enabled = offers is None and not selection.enabled
    # The start uses the survey, so that `sidecar plugins list` reports exactly the problems that would stop the start.
    host = survey_plugins(built_ins, selection, () if none_enabled else offers)
    # The first problem stops the start; the list command shows all of them.
    for _, problem in host.failed:
        raise problem
    return host


def survey_plugins(
    built_ins: Sequence[object], selection: PluginSelection, offers: Sequence[PluginOffer] | None = None
) -> PluginHost:
    """Do the same as `load_plugins`, but return the problems of installed plugins in `failed`.

    `sidecar plugins list` uses it. A plugin that fails has no registered descriptor; the others are loaded.

    Raises:
        PluginProblem: a built-in plugin is broken, or the selection names a plugin that is not installed.
    """
    installed = list_offers() if offers is None else tuple(offers)
    selected = select_offers(installed, selection)
    registered: dict[tuple[PluginKind, str], Registered] = {}
    for plugin in built_ins:
        label = getattr(plugin, "__name__", type(plugin).__name__)
        # First, so that an installed plugin cannot take the name of a built-in one: its own registration fails.
        specs = _built_in(plugin, label)
        _add(registered, [Registered(spec, BUILT_IN, "", f"built-in {label}") for spec in specs])
    failed: list[tuple[PluginOffer, PluginProblem]] = []
    # Each plugin is added completely or not at all, so the others stay usable after a broken plugin.
    for offer in selected:
        try:
            _add(registered, _load_one(offer))
        except PluginProblem as problem:
            failed.append((offer, problem))
    # The list shows only their names, because importing one would run code that no setting has allowed.
    not_selected = tuple(offer for offer in installed if offer not in selected)
    return PluginHost(MappingProxyType(registered), not_selected, tuple(failed))


def _built_in(plugin: object, label: str) -> Sequence[PluginSpec]:
    """Return the descriptors of one built-in plugin, whose hooks need no mark. Raises `PluginProblem`.

    The hooks are called without `pluggy`, which takes longer to import than all built-in plugins. A test checks the
    built-in plugins as strictly as installed ones.
    """
    where = f"built-in {label}"
    hooks = [hook for name in SPEC_TYPES if (hook := getattr(plugin, name, None)) is not None]
    # `register` raises the error that says what is wrong with the object.
    if not hooks:
        from sidecar.policy.registration import register  # noqa: PLC0415  only for the error

        return register(plugin, label, where)
    return [spec for hook in hooks for spec in guarded(hook, doing="asking it", where=where, remedy="mend it")]


def load_offer(offer: PluginOffer) -> Sequence[PluginSpec]:
    """Import one entry point and return its descriptors. Raises `PluginProblem`."""
    from sidecar.policy.registration import register  # noqa: PLC0415  only installed plugins need `pluggy`

    plugin = guarded(
        offer.entry_point.load,
        doing=f"importing the plugin `{offer.name}` of {offer.distribution} {offer.version}",
        where=offer.where,
        remedy="repair or update that distribution, or take it out of plugins.enabled",
    )
    return register(plugin, offer.label, offer.where)


def _load_one(offer: PluginOffer) -> Sequence[Registered]:
    specs = load_offer(offer)
    return [Registered(spec, offer.distribution, offer.version, offer.where) for spec in specs]


def _add(registered: dict[tuple[PluginKind, str], Registered], new: Sequence[Registered]) -> None:
    """Add all of `new` or, if a name is taken, none."""
    adding: dict[tuple[PluginKind, str], Registered] = {}
    for entry in new:
        key = (entry.spec.kind, entry.spec.name)
        # Also within one plugin: two of its hooks may return descriptors of one name.
        other = registered.get(key) or adding.get(key)
        if other is not None:
            raise PluginProblem(
                f"two plugins offer a {entry.spec.kind} named `{entry.spec.name}`",
                where=f"{other.where}, and {entry.where}",
                remedy="enable one of them only, or rename one",
            )
        adding[key] = entry
    # Only after the loop, so that a plugin whose last descriptor has a taken name leaves nothing registered.
    registered.update(adding)


def _state_after(problem: PluginProblem) -> PluginState:
    return PluginState.INCOMPATIBLE if isinstance(problem, Incompatible) else PluginState.BROKEN


def _unloaded(offer: PluginOffer, state: PluginState, error: str = "") -> InventoryRow:
    return InventoryRow(offer.name, "", "", offer.distribution, offer.version, state, error=error)
