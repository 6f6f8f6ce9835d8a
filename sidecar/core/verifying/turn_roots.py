"""Compares the facts of a turn with those that running roots cover."""

from collections.abc import Iterator, Sequence
from datetime import date

from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import TurnFacts
from sidecar.core.journal.entries import Stored
from sidecar.core.verifying.checkpoint_lines import RootKey
from sidecar.core.verifying.findings import Finding, FindingKind


class FactsUnderRoots:
    """The facts that the running roots of one day cover, by turn. Each takes some 100 bytes of memory.

    Attributes:
        late: facts in turns that no root covered when it was read, by root and link, with turn and position. They were
            appended since, or inserted by an attacker: the roots must be read again to tell.
    """

    def __init__(self, day: date) -> None:
        self._day = day
        self._links: dict[TurnId, dict[InstanceId, list[bytes]]] = {}
        self.late: dict[RootKey, dict[bytes, tuple[TurnId, int]]] = {}

    def take(self, fact: Stored) -> None:
        """Add the next fact under a root."""
        self._links.setdefault(fact.turn_id, {}).setdefault(fact.by, []).append(fact.link)

    def turns(self) -> Sequence[TurnId]:
        """Return all turns with a covered fact, in the order of their ids."""
        return sorted(self._links)

    def findings(self, turn_id: TurnId, found: TurnFacts) -> Iterator[Finding]:
        """Yield the covered facts that are missing in a turn, or in a different order there."""
        covered = self._links.get(turn_id, {})
        for instance, links in covered.items():
            # Instance by instance: the journal orders the facts of one instance, not those of two.
            own = [fact.link for fact in found.facts if fact.by == instance]
            there = set(own)
            missing = sum(link not in there for link in links)
            if missing:
                text = f"{missing} facts that instance {instance} appended to turn {turn_id} are not in the turn"
                yield Finding(FindingKind.FACT_MISSING, text, instance, self._day, turn_id)
            # Only as many facts as the root covers. Later ones were appended after the root was read.
            elif own[: len(links)] != links:
                text = f"facts of turn {turn_id} stand in another order than instance {instance} appended them in"
                yield Finding(FindingKind.FACTS_REORDERED, text, instance, self._day, turn_id)
        for place, fact in enumerate(found.facts, 1):
            # No finding yet: see `late`.
            if fact.link not in covered.get(fact.by, ()):
                self.late.setdefault(RootKey(fact.by, self._day), {})[fact.link] = turn_id, place
