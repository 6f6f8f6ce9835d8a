"""What the rules of the journal accept and refuse, and what that makes of a turn, is what the record does today."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sidecar.core.journal import rules
from sidecar.core.journal.refusals import Reason, kind_of
from tests.support.requirement import requirement
from tests.unit.journal.comparison import Comparison, Disagreement
from tests.unit.journal.drawn_facts import KINDS, OFTEN
from tests.unit.journal.planting import rules_with

SIDECARS = st.sampled_from((0, 0, 0, 1, 1, 2))
NUMBERS = st.integers(0, 9)


class ThreeSidecars(RuleBasedStateMachine):
    """One turn, used by three sidecars that do not always know what is on record."""

    def __init__(self) -> None:
        super().__init__()
        self.comparison = Comparison()

    @rule(who=SIDECARS, kind=st.sampled_from(OFTEN), a=NUMBERS, b=NUMBERS, at_once=st.booleans())
    def makes(self, who: int, kind: str, a: int, b: int, at_once: bool) -> None:
        """Make a fact, to be appended now or with others."""
        self.comparison.make(who, kind, a, b)
        if at_once:
            self.comparison.append(who)

    @rule(who=SIDECARS, times=st.integers(1, 2))
    def appends(self, who: int, times: int) -> None:
        """Append what was made."""
        self.comparison.append(who, times)

    @rule(who=SIDECARS)
    def loses(self, who: int) -> None:
        """Lose what was made, without noticing."""
        self.comparison.lose(who)

    @rule(who=SIDECARS)
    def looks(self, who: int) -> None:
        """Read the turn."""
        self.comparison.look(who)

    @rule(which=st.integers(0, 50), from_=st.integers(0, 2))
    def appends_again(self, which: int, from_: int) -> None:
        """Append an earlier group again."""
        self.comparison.append_again(which, from_)

    @invariant()
    def the_same_is_on_record(self) -> None:
        """Every derived record, every owner, the open children, what has no outcome."""
        self.comparison.compare_contents()


TestThreeSidecars = ThreeSidecars.TestCase
TestThreeSidecars.settings = settings(max_examples=60, stateful_step_count=30)


def played(seed: int, decide: Callable[..., Any]) -> Comparison:
    """Play one seeded schedule. Raises `Disagreement`."""
    chance, comparison = Random(seed), Comparison(decide)
    for _ in range(40):
        who, what = chance.choice((0, 0, 0, 1, 1, 2)), chance.random()
        if what < 0.7:
            comparison.make(who, chance.choice(OFTEN), chance.randrange(10), chance.randrange(10))
        if 0.2 < what < 0.8:
            comparison.append(who, 1 + (what > 0.75))
        elif what > 0.95:
            comparison.lose(who)
        elif what > 0.85:
            comparison.look(who)
        elif what > 0.8:
            comparison.append_again(chance.randrange(50), chance.randrange(3))
    comparison.compare_contents()
    return comparison


@requirement("SX-38")
def test_seeded_schedules_reach_every_reason() -> None:
    """What is compared is no small part of the rules: each kind of fact is accepted, each reason refuses.

    Answers to questions and scores, which may follow the end of a turn, have tests of their own (`test_questions`,
    `test_refusals`).
    """
    verdicts: set[str] = set()
    kinds: set[str] = set()
    for seed in range(600):
        comparison = played(seed, rules.decide)
        verdicts.update(comparison.verdicts)
        kinds.update(kind_of(fact.draft.body) for fact in comparison.facts)
    assert verdicts == {"accepted", *Reason} - {Reason.SCORES}
    assert len(kinds) == len(rules._RULES) - 2
    assert {"end", *KINDS} == set(OFTEN)


DEFECTS = {
    "anybody goes on with a dispatch": {"if dispatch.owner != fact.draft.by:": "if False:"},
    "any later epoch takes a dispatch": {"if body.epoch != dispatch.epoch + 1:": "if body.epoch <= dispatch.epoch:"},
    "a taking leaves the owner": {"owner=fact.draft.by, epoch=body.epoch": "epoch=body.epoch"},
    "two children take one step": {"if start.step in children:": "if False:"},
    "two children have one id": {"if start.child_id in known:": "if False:"},
    "a turn ends with an open child": {"if ended.open_children:": "if False:"},
    "a turn that ended goes on": {"if head.ended:": "if head.ended and isinstance(body, TurnEnded):"},
    "a turn ends twice": {"if head.ended:": "if head.ended and not isinstance(body, TurnEnded):"},
    "the end needs no owner of the children": {
        "        if child is not None:\n            owned": "        if False:\n            owned"
    },
    "a dispatch is opened twice": {"if body.dispatch_id in head.dispatches:": "if False:"},
    "an outcome is written twice": {"if before >> settled.place & 1:": "if False:"},
    "outcomes of all revisions are one": {
        "before = dispatch.settled[settled.revision]": "before = dispatch.settled[0] | dispatch.settled[1]"
    },
    "facts of a child follow nothing": {"if fact.links == expected:": "if True:"},
    "a fact that is there is decided again": {"if fact.link in known or fact.link in new:": "if fact.link in new:"},
    "a fact may not come twice in a group": {"if fact.link in known or fact.link in new:": "if fact.link in known:"},
    "half a group is kept": {"return FactRejected(fact, broken.reason, broken.about)": "break"},
    "facts are not counted": {"version=head.version + 1": "version=1"},
    "a child that waits counts as closed": {
        "return self.state is not ExecutionState.CLOSED": "return self.state is ExecutionState.RUNNING"
    },
    "an outcome settles nothing": {"now = before | 1 << settled.place": "now = before"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str) -> None:
    """Each defect of the rules, planted, makes one of the schedules disagree, or fall over."""
    planted = rules_with(DEFECTS[defect])
    assert any(_disagrees(seed, planted.decide) for seed in range(1500))


def _disagrees(seed: int, decide: Callable[..., Any]) -> bool:
    try:
        played(seed, decide)
    except (Disagreement, AttributeError, KeyError):
        return True
    return False
