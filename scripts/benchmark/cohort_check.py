"""What deciding about one user takes, in a process without a server: eight ramped sub-agents with two flags each.

    python -m scripts.benchmark.cohort_check [--cpu N]

Reads a number of users from each line of standard input, and answers with how long each took for all eight, in
seconds, as a line of JSON. No user comes twice; definitions, flags and rollouts stay the same, as between two fetches.
"""

import argparse
import json
import sys
import time
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scripts.benchmark.definitions import INSTANT, write_definitions
from scripts.benchmark.serving import READY, pin
from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.binding.bind import BindingRules
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, flag_snapshot_of
from sidecar.core.identifiers import DefinitionId
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.turn.cohort_surfaces import CohortSurfaces

RAMPS: Final = (5000, 5000, 5000, 5000, 9999, 9999, 9999, 9999)
"""Basis points, a ramp for each sub-agent: sixteen groups of users, and a few odd ones."""


class Checks:
    """Decides about users, each a new one."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Put every sub-agent on record."""
        self._catalogue = catalogue
        self._orchestrator = catalogue.cards[DefinitionId(INSTANT)]
        cards = [catalogue.cards[DefinitionId(slot)] for slot in self._orchestrator.definition.sub_agents]
        rollouts = [_rollout(card, ramp) for card, ramp in zip(cards, RAMPS, strict=True)]
        self._view = RolloutView({each.slot: each for each in rollouts}, 1)
        self._flags = _all_on(rollouts)
        self._surfaces = CohortSurfaces(BindingRules(fan_out_cap=3, max_dispatches=4))
        self._users = count()

    def take(self, users: int) -> list[float]:
        """Return how long each of so many users took, in seconds."""
        taken = []
        for number in range(users):
            asker = BindSubject(f"user-{next(self._users)}-{number}")
            began = time.perf_counter()
            self._surfaces.surface(self._catalogue, self._orchestrator, self._flags, asker, self._view)
            taken.append(time.perf_counter() - began)
        return taken


def _rollout(card: Card, ramp: int) -> SlotRollout:
    facts = DefinitionFacts(
        digest=card.digest,
        definition_id=card.definition.id,
        commit=card.commit,
        vertical=card.definition.vertical,
        state=LifecycleState.PROMOTE,
        ramp=ramp,
        flag=f"ai_assistant_subagent_{card.definition.id}",
        flags=FlagPair.ON,
    )
    slot = card.definition.slot
    return SlotRollout(slot=slot, definitions={card.digest: facts}, active=card.digest, salt=slot)


def _all_on(rollouts: list[SlotRollout]) -> FlagSnapshot:
    facts = [each for rollout in rollouts for each in rollout.definitions.values()]
    names = frozenset(str(name) for each in facts for name in (each.flag, each.cohort_flag))
    contact = BackendStatus(FlagReport(names, "1"), 0.0)
    return flag_snapshot_of(FlagRoutes("bench"), {"bench": contact}, now=0.0, max_staleness=10.0)


def main() -> None:
    """Read the command line, and check users until standard input ends."""
    parser = argparse.ArgumentParser(description="Cohort checks.")
    parser.add_argument("--cpu", type=int)
    pin(parser.parse_args().cpu)
    with TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name) / "definitions"
        write_definitions(folder)
        catalogue = load_directory(folder).catalogue
    if catalogue is None:
        sys.exit("the bench's own definitions cannot be loaded")
    checks = Checks(catalogue)
    print(READY, flush=True)
    for line in sys.stdin:
        print(json.dumps(checks.take(int(line))), flush=True)


if __name__ == "__main__":
    main()
