"""What the model knows of a slot. Time is a number of seconds, a definition's content an opaque text."""

from dataclasses import dataclass, replace
from typing import Final

from tests.support.simulation.rollout import wishes
from tests.support.simulation.rollout.wishes import Wish

EVERYBODY: Final = 10_000
"""Basis points."""
BEFORE_MERGE, BEFORE_RAMP, BEFORE_FULL = "pre_merge", "pre_ramp", "pre_full"
BY_GATE, BY_OPERATOR, BY_KILL_SWITCH = "gate", "operator_initiated", "kill_switch"
STEPS: Final = ("entry", "references", "modules", "blocks", "evals_and_tools")
"""Of a decommission, in their order (PF1-D-41)."""
GONE, DEPRECATED = "gone", "deprecated"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One `fail` of one gate at one step does not count, until a time."""

    gate: str
    since: int
    to: int
    until: float


@dataclass(frozen=True, slots=True)
class Leaving:
    """How far the decommission of a definition has come (REQUIREMENTS 6.16).

    Attributes:
        began: wall-clock seconds; the window is counted from there (TN-93).
        taken: numbers of the steps, 1 to 5.
        code: of step 3: `gone`, `deprecated`, or empty.
        evals, tools: `retain`, `remove`, or empty: nobody has decided (PF1-D-42).
    """

    began: float
    taken: frozenset[int] = frozenset()
    code: str = ""
    evals: str = ""
    tools: str = ""

    @property
    def following(self) -> int:
        """The first step that was not taken; 6: all were."""
        return next(number for number in range(1, 7) if number not in self.taken)

    @property
    def over(self) -> bool:
        """Whether all is done; code that is only deprecated is not (PF1-AC-7b)."""
        return self.following > len(STEPS) and self.code == GONE


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition of a slot.

    Attributes:
        shape: of model, tools and blocks: another one is another definition.
        flag: of its kill switch; None: none gates it.
        served: it was active at some time.
        flags: none, named, created, on or retired.
        unnamed: the entry names `flag` no longer, which gates it until it is retired.
        breach: of the last automatic ramp-down, as long as no raise has followed; `noted`: acknowledged.
        behind: the recorded target; None: explicitly nobody.
        leaving: its decommission; None: not begun.
    """

    name: str
    content: str
    shape: str
    flag: str | None = None
    state: str = "dev"
    ramp: int = 0
    served: bool = False
    flags: str = "none"
    unnamed: bool = False
    killed: bool = False
    breach: str = ""
    noted: bool = False
    behind: str | None = None
    waivers: frozenset[Waiver] = frozenset()
    leaving: Leaving | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot.

    Attributes:
        active: content of who serves; None: nobody.
        curve: declared steps; empty: none is declared.
        experiment: there is a control arm.
        salt: what buckets are made with; empty: the name.
    """

    name: str
    revision: int = 0
    active: str | None = None
    definitions: tuple[Definition, ...] = ()
    curve: tuple[int, ...] = ()
    experiment: bool = True
    salt: str = ""

    def of(self, content: str | None) -> Definition | None:
        """Return the definition with a content."""
        return next((each for each in self.definitions if each.content == content), None)

    def meant(self, wish: Wish) -> Definition | None:
        """Return what a wish is about: of several with its name the one that serves, else the newest."""
        named = [each for each in self.definitions if each.name == wish.name]
        fitting = [each for each in named if wish.content in ("", each.content)]
        if wish.kind == wishes.RAMP_DOWN:
            # a stop is of the definition, whatever its content is by now; nobody was ever served by one in `dev`
            fitting = fitting or [each for each in named if each.state != "dev"]
        serving = [each for each in fitting if each.content == self.active]
        return next(iter(serving or fitting[::-1]), None)

    def of_none_of(self, contents: frozenset[str]) -> bool:
        """Say whether it has none of these contents any more."""
        return all(each.content not in contents for each in self.definitions)

    def put(self, changed: Definition) -> "Slot":
        """Return it with one definition changed."""
        each = tuple(changed if known.content == changed.content else known for known in self.definitions)
        return replace(self, definitions=each)


@dataclass(frozen=True, slots=True)
class Said:
    """What the rules say of a wish.

    Attributes:
        after: the slot as it has to be then; None: refused.
        gates: that have to pass before.
        moves: content, state before, state after, trigger, ramp at the moment: one audit event each.
        happened: word, content, ramp before, ramp after (0 and 0 if it is about no ramp): one row each.
    """

    after: Slot | None
    why: str = ""
    gates: tuple[str, ...] = ()
    moves: tuple[tuple[str, str, str, str, int], ...] = ()
    happened: tuple[tuple[str, str, int, int], ...] = ()


def refused(why: str) -> Said:
    """Return that a wish is not granted."""
    return Said(None, why)
