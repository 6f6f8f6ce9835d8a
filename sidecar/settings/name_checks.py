"""Finds names in the settings that no definition has, and runner hosts whose address is wrong or missing.

The start and `sidecar doctor` report them. Otherwise such a name would have no effect and cause no message: e.g. the
responses of a misspelt tool in `signatures.tools` would never need a signature.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import AgentDefinition, Catalogue
from sidecar.core.definitions.files.addresses import problem_with_target
from sidecar.core.identifiers import Vertical
from sidecar.policy.kinds import PLUGIN
from sidecar.policy.problems import choices_for
from sidecar.settings.settings import Settings

GRPC: Final = "grpc"
NO_TARGET: Final = "no address of a runner host is configured"


class Names(Struct, frozen=True):
    """The names that settings can refer to: slots, verticals, and tools that call a data service."""

    slots: frozenset[str] = frozenset()
    verticals: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()

    def __or__(self, other: "Names") -> "Names":
        """Return the union."""
        return Names(self.slots | other.slots, self.verticals | other.verticals, self.tools | other.tools)


def names_of(catalogue: Catalogue) -> Names:
    """Return the names of a configuration."""
    verticals = frozenset(str(card.definition.vertical) for card in catalogue.cards.values())
    tools = frozenset(str(name) for name, tool in catalogue.tools.items() if tool.is_data_backed)
    return Names(frozenset(str(slot) for slot in catalogue.slots), verticals, tools)


def unknown_names(settings: Settings, known: Names) -> Iterator[str]:
    """Yield one line for each name in the settings that is unknown and not listed in `definitions.expected`."""
    # Settings may be deployed before the definitions that they name, so these names are announced there.
    announced = frozenset(settings.definitions.expected)
    yield from _unknown("targets.slots", "slot", settings.targets.slots, known.slots, announced)
    groups = settings.server.host_groups.items()
    for name, group in groups:
        yield from _unknown(f"server.host_groups.{name}.slots", "slot", group.slots, known.slots, announced)
    by_vertical: tuple[tuple[str, Iterable[str]], ...] = (
        ("targets.verticals", settings.targets.verticals),
        ("policy.verticals", settings.policy.verticals),
        ("signatures.verticals", settings.signatures.verticals),
        *((f"server.host_groups.{name}.verticals", group.verticals) for name, group in groups),
    )
    for path, names in by_vertical:
        yield from _unknown(path, "vertical", names, known.verticals, announced)
    yield from _unknown("signatures.tools", "data-backed tool", settings.signatures.tools, known.tools, announced)


def _unknown(
    path: str, what: str, names: Iterable[str], known: Collection[str], announced: Collection[str]
) -> Iterator[str]:
    for name in names:
        if name not in known and name not in announced:
            remedy = f"{choices_for(name, known)}; or list it in definitions.expected if it is to come"
            yield f"{path}: no definition has a {what} `{name}`: {remedy}"


def invalid_targets(settings: Settings, catalogue: Catalogue) -> Iterator[str]:
    """Yield one line for each invalid address in the settings of a runner host.

    Only addresses for the runner `grpc` and its instances (sections `[runners.<name>]` with `plugin = "grpc"`) are
    checked, because other runners have their own forms.
    """
    # By path, so that an address that many cards use is reported once.
    addresses: dict[str, str] = {}
    instances = _grpc_runners(settings)
    for name, section in instances.items():
        if isinstance(section.get("target"), str):
            addresses[f"runners.{name}.target"] = section["target"]
    for card in catalogue.cards.values():
        definition = card.definition
        if _runner_of(definition, settings) in instances:
            slot, vertical = definition.slot, definition.vertical
            if slot in settings.targets.slots:
                addresses[f"targets.slots.{slot}"] = settings.targets.slots[slot]
            if vertical in settings.targets.verticals:
                addresses[f"targets.verticals.{vertical}"] = settings.targets.verticals[vertical]
    for path, target in addresses.items():
        problem = problem_with_target(target)
        if problem is not None:
            yield f"{path}: {problem}"


def without_target(settings: Settings, catalogue: Catalogue) -> Iterator[tuple[AgentDefinition, str]]:
    """Yield each sub-agent without an address of its runner host, and the remedy.

    Only sub-agents with the runner `grpc` or an instance of it need an address.
    """
    listed = {slot for card in catalogue.cards.values() for slot in card.definition.sub_agents}
    instances, targets = _grpc_runners(settings), settings.targets
    for definition in (card.definition for card in catalogue.cards.values()):
        runner = _runner_of(definition, settings)
        # A definition that no orchestrator lists is never called, so it needs no address.
        if definition.slot not in listed or runner not in instances:
            continue
        by_slot, by_vertical = targets.slots.get(definition.slot), targets.verticals.get(definition.vertical)
        # The order of precedence does not matter here: any of them is an address.
        if not any((definition.runner.target, by_slot, by_vertical, instances[runner].get("target"))):
            yield definition, f'set `targets.slots.{definition.slot} = "unix:/run/{definition.slot}.sock"`'


def missing_targets(settings: Settings, catalogue: Catalogue) -> Iterator[str]:
    """Yield one line for each sub-agent of `without_target`."""
    for definition, remedy in without_target(settings, catalogue):
        yield f"targets.slots: {NO_TARGET} for the sub-agent `{definition.id}`, so every call of it fails: {remedy}"


def _grpc_runners(settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of the runner `grpc` and of its instances, by name."""
    # `grpc` itself may have no section; a section `[runners.grpc]` replaces the empty one.
    return {GRPC: {}} | {name: each for name, each in settings.runners.items() if each.get(PLUGIN) == GRPC}


def _runner_of(definition: AgentDefinition, settings: Settings) -> str:
    """Return the name of the runner that runs a definition: its own, or that of its vertical, or the default."""
    names = settings.policy.verticals.get(Vertical(definition.vertical))
    return definition.runner.kind or (names.runner if names else None) or settings.policy.default.runner
