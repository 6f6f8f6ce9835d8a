"""Finds installed plugins by the metadata of their distributions, without importing any of their code.

A distribution must not be able to run code in the sidecar merely because it is installed. `loading.py` imports only the
entry points that `plugins.enabled` names.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sidecar.policy.problems import PluginProblem, choices_for

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "sidecar.plugins"


class PluginSelection(Struct, frozen=True):
    """Which installed plugins may run.

    Attributes:
        enabled: texts of three forms: the name of an entry point, the name of a distribution, which means all its
            entry points, or `distribution:entry-point`. Empty: only built-in plugins.
    """

    enabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginOffer:
    """One entry point of one distribution. Its module has not been imported.

    Attributes:
        distribution: its normalised name, e.g. `flags-unleash`.
        name: the name of the entry point.
        target: the module or attribute to which the entry point refers.
    """

    distribution: str
    version: str
    name: str
    target: str
    entry_point: "EntryPoint" = field(repr=False, compare=False)

    @property
    def label(self) -> str:
        """Return `distribution:entry-point`, which no other offer has."""
        return f"{self.distribution}:{self.name}"

    @property
    def where(self) -> str:
        """Return a description of the place, for messages."""
        return f"entry point `{self.name}` = {self.target} of {self.distribution} {self.version}"


def list_offers() -> tuple[PluginOffer, ...]:
    """Return every entry point of the group `sidecar.plugins`, sorted by distribution and name."""
    from importlib.metadata import entry_points  # noqa: PLC0415  only where a plugin is enabled

    offers = []
    for found in entry_points(group=ENTRY_POINT_GROUP):
        distribution = found.dist
        name = _normalised(distribution.name) if distribution else "unknown"
        version = distribution.version if distribution else "unknown"
        offers.append(PluginOffer(name, version, found.name, found.value, found))
    # Python returns them in the order of the directory listing. They are sorted so that messages and `sidecar plugins
    # list` are the same on each machine.
    return tuple(sorted(offers, key=lambda offer: (offer.distribution, offer.name)))


def select_offers(offers: Sequence[PluginOffer], selection: PluginSelection) -> tuple[PluginOffer, ...]:
    """Return the offers that `selection` names, each once, in the order of `offers`, not of the setting.

    Raises:
        PluginProblem: a name matches no offer, or offers of several distributions.
    """
    # By label, so that an entry point is loaded once, although its distribution is enabled, too.
    chosen = {offer.label: offer for wanted in selection.enabled for offer in _named(offers, wanted)}
    return tuple(offer for offer in offers if offer.label in chosen)


def _named(offers: Sequence[PluginOffer], wanted: str) -> Sequence[PluginOffer]:
    by_distribution = [offer for offer in offers if offer.distribution == _normalised(wanted)]
    by_name = [offer for offer in offers if wanted in {offer.name, offer.label}]
    # An entry point's name wins: a distribution may have the name of one of its own entry points.
    matches = by_name or by_distribution
    if not matches:
        known = [name for offer in offers for name in (offer.name, offer.distribution)]
        raise PluginProblem(
            f"the enabled plugin `{wanted}` is not installed",
            where=f"plugins.enabled, entry point group {ENTRY_POINT_GROUP}",
            remedy=f"install it or take it out; {choices_for(wanted, {*known})}",
        )
    # Refused if the name fits two distributions, as a distribution's or an entry point's name: the wrong choice would
    # run code that the operator did not enable.
    owners = sorted({offer.distribution for offer in matches} | {offer.distribution for offer in by_distribution})
    if len(owners) > 1:
        raise PluginProblem(
            f"the enabled plugin `{wanted}` may mean several distributions: {', '.join(owners)}",
            where="plugins.enabled",
            remedy=f"name it as `<distribution>:<entry point>`, e.g. `{matches[0].label}`",
        )
    return matches


def _normalised(name: str) -> str:
    """Return a distribution's name in the form in which package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
