"""Loads plugins: the built-ins, and the installed ones that the settings enable.

There is no global state: `load_plugins` returns a `PluginHost` with every descriptor. Entry points are imported one
by one, each behind its own boundary. Source: DESIGN section 9, reliability rows 53 to 56.
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
    """Loaded, and the settings have chosen it for something."""
    AVAILABLE = "available"
    """Loaded; nothing has chosen it."""
    NOT_SELECTED = "not selected"
    """Installed, not in `plugins.enabled`, never imported."""
    BROKEN = "broken"
    """Enabled, but it cannot be loaded."""
    INCOMPATIBLE = "incompatible"
    """Enabled, but written for a contract that this sidecar does not speak."""


class InventoryRow(Struct, frozen=True):
    """One line of `sidecar plugins list`.

    Attributes:
        name: of the descriptor; for a plugin that was not loaded, of its entry point.
        kind, contract, summary: empty for a plugin that was not loaded.
        distribution: `built in` for what comes with the sidecar.
        error: why it is broken or incompatible; empty otherwise.
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
        distribution: `built in` for a plugin of the sidecar.
        where: entry point or module, for messages.
        plugin: for an instance, the name of its plugin; empty for a plugin itself.
    """

    spec: PluginSpec
    distribution: str
    version: str
    where: str
    plugin: str = ""


class PluginHost(Struct, frozen=True):
    """Every loaded descriptor, by kind and name, and what else is installed.

    Attributes:
        registered: by (kind, name). An instance is here under its own name, with the descriptor of its plugin, once
            `with_instances` has added it.
        not_selected: offers that were never imported.
        failed: enabled offers that could not be loaded, with the reason; empty unless `survey_plugins` made this.
    """

    registered: Mapping[tuple[PluginKind, str], Registered]
    not_selected: tuple[PluginOffer, ...] = ()
    failed: tuple[tuple[PluginOffer, PluginProblem], ...] = ()

    def modules(self) -> Mapping[str, str]:
        """Return the distributions of installed plugins by top-level module, to tell whose code blocks the loop."""
        installed = (one for one in self.registered.values() if one.distribution != BUILT_IN)
        factories = ((getattr(one.spec, "factory", None), one.distribution) for one in installed)
        return {getattr(factory, "__module__", "").partition(".")[0]: name for factory, name in factories}

    def is_own(self, spec: PluginSpec) -> bool:
        """Return whether a descriptor, also one of an instance, belongs to a built-in plugin."""
        found = self.registered.get((spec.kind, spec.name))
        return found is not None and found.distribution == BUILT_IN

    def names(self, kind: PluginKind) -> tuple[str, ...]:
        """Return the names that may be chosen for a kind, in order."""
        return tuple(sorted(name for of_kind, name in self.registered if of_kind is kind))

    def plugin_of(self, spec: PluginSpec) -> str:
        """Return the name of the plugin that a descriptor, also one of an instance, belongs to."""
        found = self.registered.get((spec.kind, spec.name))
        return (found.plugin if found else "") or spec.name

    def spec(self, spec_type: type[SpecT], name: str, where: str) -> SpecT:
        """Return the descriptor of that name.

        Args:
            spec_type: its class, which also tells the kind.
            name: as chosen.
            where: the setting that chose it, e.g. `policy.default.flags`.

        Raises:
            PluginProblem: no such name; lists the choices.
        """
        found = self.registered.get((spec_type.kind, name))
        if found is None or not isinstance(found.spec, spec_type):
            raise PluginProblem(
                f"there is no {spec_type.kind} named `{name}`",
                where=where,
                remedy=f"{choices_for(name, self.names(spec_type.kind))}; "
                "an installed plugin counts once `plugins.enabled` names it",
            )
        return found.spec

    def inventory(self, chosen: Collection[tuple[PluginKind, str]] = ()) -> tuple[InventoryRow, ...]:
        """Return a row for each descriptor, then for each plugin that failed, then for each that was not selected.

        Args:
            chosen: what the settings and definitions use, as (kind, name).
        """
        # The plugin of a chosen instance counts as chosen, too.
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
        selection: what the settings enable.
        offers: what is installed; None: ask the metadata, if anything is selected.

    Raises:
        PluginProblem: a selected plugin is missing, broken or incompatible, or two descriptors share a name.
    """
    none_wanted = offers is None and not selection.enabled  # then the metadata of everything installed need not be read
    # The same way as the survey, so that `sidecar plugins list` reports exactly what would stop the start.
    host = survey_plugins(built_ins, selection, () if none_wanted else offers)
    for _, problem in host.failed:
        raise problem
    return host


def survey_plugins(
    built_ins: Sequence[object], selection: PluginSelection, offers: Sequence[PluginOffer] | None = None
) -> PluginHost:
    """Load like `load_plugins`, but keep each broken plugin's problem in `failed`; for `sidecar plugins list`.

    A failed plugin leaves nothing registered; the others are loaded.

    Raises:
        PluginProblem: a built-in is broken, or the selection names something that is not installed.
    """
    found = list_offers() if offers is None else tuple(offers)
    selected = select_offers(found, selection)
    registered: dict[tuple[PluginKind, str], Registered] = {}
    for plugin in built_ins:
        label = getattr(plugin, "__name__", type(plugin).__name__)
        specs = _built_in(plugin, label)
        _add(registered, [Registered(spec, BUILT_IN, "", f"built-in {label}") for spec in specs])
    failed: list[tuple[PluginOffer, PluginProblem]] = []
    # One after the other, each added as a whole: the rest of the list stays usable after a broken plugin.
    for offer in selected:
        try:
            _add(registered, _load_one(offer))
        except PluginProblem as problem:
            failed.append((offer, problem))
    # These are only named: importing one would run code that no setting has allowed.
    not_selected = tuple(offer for offer in found if offer not in selected)
    return PluginHost(MappingProxyType(registered), not_selected, tuple(failed))


def _built_in(plugin: object, label: str) -> Sequence[PluginSpec]:
    """Return what one of the sidecar's own plugins offers, whose hooks need no mark. Raises `PluginProblem`.

    A test registers each built-in as an installed plugin; `pluggy` takes longer to load than all of them.
    """
    where = f"built-in {label}"
    hooks = [hook for name in SPEC_TYPES if (hook := getattr(plugin, name, None)) is not None]
    if not hooks:
        from sidecar.policy.registration import register  # noqa: PLC0415  says what is wrong

        return register(plugin, label, where)
    return [spec for hook in hooks for spec in guarded(hook, doing="asking it", where=where, remedy="mend it")]


def load_offer(offer: PluginOffer) -> Sequence[PluginSpec]:
    """Import one entry point and return what it offers. Raises `PluginProblem`."""
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
    for one in new:
        key = (one.spec.kind, one.spec.name)
        other = registered.get(key) or adding.get(key)
        if other is not None:
            raise PluginProblem(
                f"two plugins offer a {one.spec.kind} named `{one.spec.name}`",
                where=f"{other.where}, and {one.where}",
                remedy="enable one of them only, or rename one",
            )
        adding[key] = one
    # Only after the whole loop, so that a clash in the last descriptor leaves none of the plugin behind.
    registered.update(adding)


def _state_after(problem: PluginProblem) -> PluginState:
    return PluginState.INCOMPATIBLE if isinstance(problem, Incompatible) else PluginState.BROKEN


def _unloaded(offer: PluginOffer, state: PluginState, error: str = "") -> InventoryRow:
    return InventoryRow(offer.name, "", "", offer.distribution, offer.version, state, error=error)
