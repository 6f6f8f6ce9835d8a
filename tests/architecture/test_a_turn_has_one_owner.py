"""Only the classes of `operations/turn/state` change the state of a turn, its dispatches and its children.

What they hold is typed as something that cannot be changed (`Mapping`, `Sequence`), so that the type checker finds
whoever hands it to a function that changes it; everything else is found here.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.architecture.owned_state import CLASSES, changes, classes_at_home
from tests.architecture.reading import modules, planted

HOME: Final = """
    @dataclass(slots=True)
    class TurnState:
        closed: str | None = None
        late: list[str] = field(default_factory=list)
        children: dict[str, Child] = field(default_factory=dict)

    @dataclass(slots=True)
    class Child:
        log: ChildLog
        unsaved: list[str] = field(default_factory=list)

    class Calls:
        def __init__(self):
            self.stops: dict[str, Ending] = {}
            self.busy_for = 0.0

    class BudgetLedger:
        def __init__(self):
            self.tokens = 0

    class TurnSlotQueues:
        def __init__(self):
            self.running = {}
"""
IMPORTS: Final = "from sidecar.operations.turn.state.turn import TurnState as Turn\n"


def found_in(body: str, root: Path, path: str = "sidecar/operations/turn/shortcut.py") -> list[str]:
    """Return what is found where a module has such a body."""
    files = {"sidecar/operations/turn/state/turn.py": HOME, path: IMPORTS + body}
    return [each.partition(" ")[2] for each in changes(modules("sidecar", root=planted(root, files)))]


def test_nothing_else_changes_the_state_of_a_turn() -> None:
    """The whole of the sidecar."""
    assert list(changes(modules("sidecar"))) == []


def test_every_class_of_the_list_is_at_home() -> None:
    """A class that was renamed would not be guarded any more."""
    assert classes_at_home(modules("sidecar")) >= CLASSES


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("def f(turn: Turn): turn.closed = 'x'", "changes turn.closed"),
        ("def f(turn: Turn): turn.closed += 'x'", "changes turn.closed"),
        ("def f(turn: Turn): turn.closed: str = 'x'", "changes turn.closed"),
        ("def f(turn: Turn): del turn.closed", "changes turn.closed"),
        ("def f(turn: Turn): store, turn.closed = 1, 'x'", "changes turn.closed"),
        ("def f(turn: Turn):\n    for turn.closed in 'xy': ...", "changes turn.closed"),
        ("def f(turn: Turn):\n    with open('x') as turn.closed: ...", "changes turn.closed"),
        ("def f(dispatch): dispatch.turn.closed = 'x'", "changes dispatch.turn.closed"),
        ("def f(turn: Turn):\n    other = turn\n    other.closed = 'x'", "changes other.closed"),
        ("def f(turn: Turn):\n    for child in turn.children.values(): child.unsaved = []", "changes child.unsaved"),
        ("class A:\n    def f(self): self._turn.closed = 'x'", "changes self._turn.closed"),
        ("def f(turn: Turn): turn.children['c'] = 1", "changes turn.children[...]"),
        ("def f(turn: Turn): del turn.children['c']", "changes turn.children[...]"),
        ("def f(turn: Turn): turn.late[0] += 'x'", "changes turn.late[...]"),
        ("def f(turn: Turn): turn.late.append('x')", "changes turn.late by append"),
        ("def f(turn: Turn): turn.children.pop('c', None)", "changes turn.children by pop"),
        ("def f(turn: Turn): (turn.late or []).clear()", "changes turn.late by clear"),
        ("def f(turn: Turn):\n    add = turn.late.append\n    add('x')", "changes turn.late by append"),
        ("def f(turn: Turn):\n    late = turn.late\n    late.append('x')", "changes turn.late by append"),
        ("def f(turn: Turn):\n    late, x = turn.late, 1\n    late += ['x']", "changes turn.late by Add"),
        ("def f(turn: Turn):\n    if late := turn.late: late.clear()", "changes turn.late by clear"),
        ("def f(turn: Turn):\n    late = turn.late\n    return lambda: late.clear()", "changes turn.late by clear"),
        ("def f(dispatch): dispatch.calls.stops['c'].settle(1)", "changes dispatch.calls.stops by settle"),
        ("def f(calls: 'Calls'): calls.stops.get('c').settle(1)", "changes calls.stops by settle"),
        ("def f(child: Child): child.log.failed(1, 2, 3)", "moves child.log by failed"),
        ("def f(child: Child):\n    log = child.log\n    log.noted(1, 2, 3)", "moves child.log by noted"),
        ("def f(child: Child): child.ledger.tokens += 1", "changes child.ledger.tokens"),
        ("def f(turn: Turn): turn.queues.running.clear()", "changes turn.queues.running by clear"),
        ("def f(turn: Turn): setattr(turn, 'closed', 'x')", "changes closed by name"),
        ("def f(turn: Turn): object.__setattr__(turn, 'closed', 'x')", "changes closed by name"),
        ("class Another(TurnState):\n    def f(self): self.closed = 'x'", "is made of TurnState"),
    ],
)
def test_another_hand_is_caught(body: str, problem: str, tmp_path: Path) -> None:
    """Assignments of every kind, containers, names that stand for them, the log of a child, and subclasses."""
    assert found_in(body, tmp_path) == [problem]


@pytest.mark.parametrize(
    "body",
    [
        "def f(turn: Turn): turn.end('x')",
        "def f(turn: Turn): return turn.closed, turn.late[0], [*turn.children.values()]",
        "def f(turn: Turn):\n    late = list(turn.late)\n    late.append('x')",
        "def f(child: Child): return child.log.state, child.log.run_id",
        "def f(turn: StoredTurn): turn.children['c'] = 1",
        "class A:\n    def __init__(self): self.closed = self.late = []",
        "def f(calls: list[str]): calls.append('x')",
    ],
)
def test_reading_it_and_state_of_ones_own_are_let_through(body: str, tmp_path: Path) -> None:
    """Methods that are transitions, copies, and other things with attributes of the same name."""
    assert found_in(body, tmp_path) == []


def test_its_home_may_change_it_and_who_cannot_reach_it_is_not_asked(tmp_path: Path) -> None:
    """The same assignment at home, and in a module that imports nothing of turns."""
    body = "def f(turn: Turn): turn.closed = 'x'"
    assert found_in(body, tmp_path / "home", "sidecar/operations/turn/state/open_turns.py") == []
    stranger = {
        "sidecar/operations/turn/state/turn.py": HOME,
        "sidecar/adapters/x.py": "def f(socket): socket.closed = 1",
    }
    assert list(changes(modules("sidecar", root=planted(tmp_path / "far", stranger)))) == []
