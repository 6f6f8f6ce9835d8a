"""A lifecycle moves in one place: no other code writes a state or a transition (PF1-D-3).

`step.transition` moves it, by the table of moves; `definition_changes` gives a definition that was never seen its first
state; `past_rollout` replays what the audit says and keeps nothing.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.architecture.reading import Module, modules, planted
from tests.support.requirement import requirement

MAKES_EVENTS: Final = frozenset({"sidecar.core.rollout.step"})
SETS_STATES: Final = frozenset(
    {*MAKES_EVENTS, "sidecar.core.rollout.definition_changes", "sidecar.core.rollout.past_rollout"}
)
MAKES_WRITES: Final = "sidecar.operations.rollout."
STATEFUL: Final = frozenset({"replace", "change", "DefinitionFacts"})
"""What may be called with `state=` to give a definition a state."""


def violations(found: Iterable[Module]) -> Iterator[str]:
    """Yield each place that writes a state, a transition or a rollout where none belongs."""
    for module in found:
        for call in (node for node in module.nodes if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            of_a_definition = name in STATEFUL and any(keyword.arg == "state" for keyword in call.keywords)
            in_rollouts = "rollout" in module.name
            if of_a_definition and in_rollouts and module.name not in SETS_STATES:
                yield f"{module.at(call)} sets a lifecycle state"
            if name == "TransitionEvent" and module.name not in MAKES_EVENTS:
                yield f"{module.at(call)} makes a transition"
            if name == "RolloutWrite" and not module.name.startswith(MAKES_WRITES):
                yield f"{module.at(call)} writes a rollout"


@requirement("PF1-D-3")
def test_a_lifecycle_moves_in_one_place() -> None:
    """The whole of the sidecar."""
    assert list(violations(modules("sidecar"))) == []


def test_another_way_is_caught(tmp_path: Path) -> None:
    """A state set past the table, an event made by hand, a write from a servicer."""
    shortcuts = {
        "sidecar/operations/rollout/shortcut.py": "replace(facts, state=PROMOTE)\nTransitionEvent(slot=slot)\n",
        "sidecar/rpc/shortcut.py": "ports.RolloutWrite(slot=slot)\n",
    }
    found = violations(modules(root=planted(tmp_path, shortcuts)))
    assert [each.partition(" ")[2] for each in found] == [
        "sets a lifecycle state",
        "makes a transition",
        "writes a rollout",
    ]
