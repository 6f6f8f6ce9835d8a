"""The decommission of a definition as pure functions: begin, five steps in order, two decisions, and back again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import decommission, transitions
from sidecar.core.rollout.decommission import StepCompletion
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus, Decommission, Subject
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.core.rollout.step import Actor, Change
from sidecar.observability.audit.sinks import written
from sidecar.policy.audit import AuditEntry
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, by, facts, rollout

SHOP = Digest("sha256:shop")
QUARTER = timedelta(days=90)
WORD = "looked at in commit 1f3a"
ENTRY, REFERENCES, MODULES, BLOCKS, EVALS_AND_TOOLS = CleanupStep


def at(days: float) -> Actor:
    """Return who does something, some days after the begin."""
    return msgspec.structs.replace(by(), at=NOW + timedelta(days=days))


def taking(step: CleanupStep, code: CodeStatus | None = None) -> StepCompletion:
    """Return what is said of a step; of step 3 that the code is gone, unless otherwise."""
    if step is MODULES:
        return StepCompletion(step=step, code=code or CodeStatus.GONE, confirmed=WORD)
    return StepCompletion(step=step, confirmed=WORD if step is EVALS_AND_TOOLS else "")


def begun(*steps: CleanupStep, code: CodeStatus = CodeStatus.GONE, decided: bool = True) -> SlotRollout:
    """Return a rollout whose `shop` is being decommissioned, so far."""
    found = decommission.begin(rollout(facts("shop", LifecycleState.ROLLBACK)), SHOP, QUARTER, by()).rollout
    for matter in Subject if decided else ():
        found = decommission.decide(found, SHOP, matter, Choice.RETAIN, by()).rollout
    for step in steps:
        found = decommission.complete_step(found, SHOP, taking(step, code), by()).rollout
    return found


def record_of(found: SlotRollout) -> Decommission:
    """Return what is on record."""
    record = found.definitions[SHOP].decommission
    assert record is not None
    return record


@pytest.mark.parametrize("state", LifecycleState)
def test_only_what_is_in_rollback_is_decommissioned_and_it_stays_there(state: LifecycleState) -> None:
    """Of the four states one; the others are told what to do first."""
    before = rollout(facts("shop", state))
    if state is LifecycleState.ROLLBACK:
        after = decommission.begin(before, SHOP, QUARTER, by()).rollout.definitions[SHOP]
        assert (after.state, after.decommission_began_at) == (LifecycleState.ROLLBACK, NOW)
        return
    with pytest.raises(TransitionRefused, match=f"is in {state}; only what is in rollback is decommissioned: "):
        decommission.begin(before, SHOP, QUARTER, by())


def test_another_digest_of_the_same_id_that_may_serve_keeps_its_entry() -> None:
    """A definition was changed in place: its old digest is rolled back, the new one is in promote."""
    old = facts("shop", LifecycleState.ROLLBACK)
    new = msgspec.structs.replace(facts("shop"), digest=Digest("sha256:new"))
    with pytest.raises(TransitionRefused, match="another digest that is not rolled back: sha256:new"):
        decommission.begin(rollout(old, new), SHOP, QUARTER, by())


@requirement("PF1-D-76", "PF1-NFR-5a")
def test_the_window_is_counted_from_the_begin_and_a_mere_rollback_has_none() -> None:
    """In rollback for a year, then begun: due 90 days later; overdue from that moment on, and not before."""
    paused = facts("shop", LifecycleState.ROLLBACK)
    found = decommission.begin(rollout(paused), SHOP, QUARTER, at(365)).rollout
    record = record_of(found)

    assert paused.decommission is None
    assert (record.began_at, record.due_at) == (at(365).at, at(455).at)
    assert [record.overdue(at(days).at) for days in (365, 454.9, 455, 500)] == [False, False, True, True]


@requirement("PF1-D-41")
@pytest.mark.parametrize("already", range(6))
@pytest.mark.parametrize("step", CleanupStep)
def test_steps_are_taken_in_order_and_each_but_once(already: int, step: CleanupStep) -> None:
    """All 30 cases: a step that was taken changes nothing, the next one is taken, any later one is refused."""
    before = begun(*tuple(CleanupStep)[:already])
    if step.number > already + 1:
        with pytest.raises(TransitionRefused, match=r"out of order: step \d .* is next"):
            decommission.complete_step(before, SHOP, taking(step), by())
        return
    change = decommission.complete_step(before, SHOP, taking(step), by("r-9"))

    assert len(record_of(change.rollout).steps) == max(already, step.number)
    assert (change.rollout is before, len(change.events)) == ((True, 0) if step.number <= already else (False, 1))


@requirement("PF1-D-43")
def test_every_step_is_one_audit_event_with_the_fields_of_a_transition_and_is_none() -> None:
    """Begin, two decisions, five steps: each says who, why, commit and cohort; both states are rollback."""
    found, events = rollout(facts("shop", LifecycleState.ROLLBACK)), list[Any]()
    asked: list[Any] = [lambda now: decommission.begin(now, SHOP, QUARTER, by())]
    asked += [lambda now, m=matter: decommission.decide(now, SHOP, m, Choice.REMOVE, by()) for matter in Subject]
    asked += [lambda now, s=step: decommission.complete_step(now, SHOP, taking(s), by()) for step in CleanupStep]
    for ask in asked:
        change: Change = ask(found)
        assert change.transitions == ()
        found, events = change.rollout, [*events, *change.events]

    marks = [event.decommission for event in events if event.decommission]
    assert [mark.step for mark in marks] == ["begin", "decide", "decide", *(step.value for step in CleanupStep)]
    assert {(mark.source_state, mark.target_state) for mark in marks} == {(LifecycleState.ROLLBACK,) * 2}
    assert {(mark.trigger, mark.agent_definition_commit) for mark in marks} == {(Trigger.OPERATOR, "commit-shop")}
    assert {mark.cohort.agent_definition_version for mark in marks} == {"5"}
    assert {(event.actor, event.reason) for event in events} == {("ada@example", "because")}


@requirement("PF1-D-43")
def test_sinks_write_a_step_under_a_name_of_its_own_with_the_fields_of_a_transition() -> None:
    """What a collector gets: no transition by name, and every field of one."""
    [event] = decommission.complete_step(begun(), SHOP, taking(ENTRY), by()).events
    fields = written(AuditEntry("shop/7", 7, event, None)).fields

    assert fields["event"] == "subagent.lifecycle.decommission_step"
    assert {name: fields[name] for name in ("subagent_id", "source_state", "target_state", "trigger", "step")} == {
        "subagent_id": "shop",
        "source_state": "rollback",
        "target_state": "rollback",
        "trigger": "operator_initiated",
        "step": "entry",
    }
    assert fields["agent_definition_commit"] == "commit-shop"
    assert fields["cohort"] == {"agent_definition_version": "5", "active_flags": [], "ramp_step_percent": 0}
    assert (fields["what"], fields["detail"]) == ("decommission_step", "1 (entry)")


@requirement("PF1-D-42")
def test_what_becomes_of_evals_and_tools_is_decided_separately_and_before_step_5() -> None:
    """Undecided, half decided, decided; anew until step 5 is taken; each says who and why."""
    before = begun(ENTRY, REFERENCES, MODULES, BLOCKS, decided=False)
    with pytest.raises(TransitionRefused, match="about the evals and tools"):
        decommission.complete_step(before, SHOP, taking(EVALS_AND_TOOLS), by())
    half = decommission.decide(before, SHOP, Subject.EVALS, Choice.REMOVE, by()).rollout
    with pytest.raises(TransitionRefused, match="about the tools of"):
        decommission.complete_step(half, SHOP, taking(EVALS_AND_TOOLS), by())
    whole = decommission.decide(half, SHOP, Subject.TOOLS, Choice.RETAIN, by(actor="bo@example")).rollout
    anew = decommission.decide(whole, SHOP, Subject.EVALS, Choice.RETAIN, by()).rollout
    record = record_of(anew)

    assert (record.evals and record.evals.choice, record.tools and record.tools.choice) == (Choice.RETAIN,) * 2
    assert (record.evals and record.evals.by, record.tools and record.tools.by) == ("ada@example", "bo@example")
    ended = decommission.complete_step(anew, SHOP, taking(EVALS_AND_TOOLS), by()).rollout
    assert decommission.decide(ended, SHOP, Subject.EVALS, Choice.RETAIN, by()).rollout is ended
    with pytest.raises(TransitionRefused, match="carried out"):
        decommission.decide(ended, SHOP, Subject.EVALS, Choice.REMOVE, by())


def test_code_that_is_only_deprecated_has_to_go_before_the_end() -> None:
    """All five steps, code deprecated: not ended, late after the window; taken again with the code gone: ended."""
    found = begun(*CleanupStep, code=CodeStatus.DEPRECATED)
    late = record_of(found).overdue(at(90).at)
    after = decommission.complete_step(found, SHOP, taking(MODULES), at(91)).rollout

    assert (record_of(found).next_step, record_of(found).finished_at, late) == (None, None, True)
    assert record_of(after).finished_at == at(91).at
    assert not record_of(after).overdue(at(400).at)
    assert [each.step for each in record_of(after).steps] == list(CleanupStep)
    with pytest.raises(TransitionRefused, match="deleted already"):
        decommission.complete_step(after, SHOP, taking(MODULES, CodeStatus.DEPRECATED), by())


@pytest.mark.parametrize("step", [MODULES, EVALS_AND_TOOLS])
@pytest.mark.parametrize("word", ["", "  "])
def test_what_no_sidecar_can_see_somebody_has_to_answer_for(step: CleanupStep, word: str) -> None:
    """Steps 3 and 5 without a word of the operator are refused."""
    before = begun(*tuple(CleanupStep)[: step.number - 1])
    with pytest.raises(TransitionRefused, match="confirm in words"):
        decommission.complete_step(before, SHOP, msgspec.structs.replace(taking(step), confirmed=word), by())


@requirement("PF1-D-44")
@pytest.mark.parametrize(
    ("steps", "code", "possible"),
    [
        ((), CodeStatus.GONE, True),
        ((ENTRY,), CodeStatus.GONE, True),
        ((ENTRY, REFERENCES), CodeStatus.GONE, True),
        ((ENTRY, REFERENCES, MODULES), CodeStatus.DEPRECATED, True),
        ((ENTRY, REFERENCES, MODULES), CodeStatus.GONE, False),
        ((ENTRY, REFERENCES, MODULES, BLOCKS), CodeStatus.DEPRECATED, False),
        (tuple(CleanupStep), CodeStatus.GONE, False),
    ],
)
def test_it_can_be_undone_until_code_is_deleted(
    steps: tuple[CleanupStep, ...], code: CodeStatus, *, possible: bool
) -> None:
    """Undone, nothing of it is left but the state, which is rollback for good."""
    before = begun(*steps, code=code)
    if not possible:
        with pytest.raises(TransitionRefused, match="cannot be undone"):
            decommission.undo(before, SHOP, by())
        return
    after = decommission.undo(before, SHOP, by()).rollout.definitions[SHOP]

    assert (after.state, after.decommission, after.decommission_began_at) == (LifecycleState.ROLLBACK, None, None)


def test_what_has_not_begun_has_no_steps_no_decisions_and_nothing_to_undo() -> None:
    """Each is refused, and says that it has not begun."""
    before = rollout(facts("shop", LifecycleState.ROLLBACK))
    asked: tuple[Callable[[], object], ...] = (
        lambda: decommission.complete_step(before, SHOP, taking(ENTRY), by()),
        lambda: decommission.decide(before, SHOP, Subject.EVALS, Choice.RETAIN, by()),
        lambda: decommission.undo(before, SHOP, by()),
    )
    for ask in asked:
        with pytest.raises(TransitionRefused, match="has not begun"):
            ask()


def test_once_it_has_begun_nothing_kills_it_and_once_undone_a_kill_is_nothing_new() -> None:
    """DESIGN section 8: a kill once decommission has begun is refused."""
    with pytest.raises(TransitionRefused, match="being decommissioned"):
        transitions.kill(begun(), SHOP, by())
    undone = decommission.undo(begun(), SHOP, by()).rollout
    assert transitions.kill(undone, SHOP, by()).rollout is undone


class AnyOrder(RuleBasedStateMachine):
    """Operators who ask for anything in any order, twice and thrice, beside a few lines that say what is possible."""

    def __init__(self) -> None:
        super().__init__()
        self.found = rollout(facts("shop", LifecycleState.ROLLBACK))
        self.steps, self.code, self.decided = 0, "", dict[str, str]()
        self.open = False
        self.events = 0

    @initialize(started=st.booleans())
    def start(self, *, started: bool) -> None:
        """Perhaps begin at once."""
        if started:
            self.begin()

    @rule()
    def begin(self) -> None:
        """Begin, again if need be."""
        self.tried(lambda: decommission.begin(self.found, SHOP, QUARTER, by()), possible=True, news=not self.open)
        self.open = True

    @rule(step=st.sampled_from(CleanupStep), code=st.sampled_from(CodeStatus), word=st.sampled_from(["", WORD]))
    def take(self, step: CleanupStep, code: CodeStatus, word: str) -> None:
        """Take any step."""
        number, said = step.number, code.value if step is MODULES else ""
        asked = StepCompletion(step=step, code=code if step is MODULES else None, confirmed=word)
        again = self.open and number <= self.steps and (step is not MODULES or self.code == said)
        mended = number == 3 <= self.steps and (self.code, said) == ("deprecated", "gone")
        vouched = bool(word) or number not in {3, 5}
        fits = number == self.steps + 1 and (number != 5 or len(self.decided) == 2)
        possible = self.open and (again or (vouched and (mended or fits)))
        self.tried(lambda: decommission.complete_step(self.found, SHOP, asked, by()), possible=possible, news=not again)
        if possible:
            self.steps, self.code = max(self.steps, number), said or self.code

    @rule(matter=st.sampled_from(Subject), choice=st.sampled_from(Choice))
    def decide(self, matter: Subject, choice: Choice) -> None:
        """Decide anything."""
        again = self.open and self.decided.get(matter) == choice
        possible = self.open and (again or self.steps < 5)
        ask = lambda: decommission.decide(self.found, SHOP, matter, choice, by())  # noqa: E731  one line says it
        self.tried(ask, possible=possible, news=not again)
        if possible:
            self.decided[matter] = choice

    @rule()
    def undo(self) -> None:
        """Take it back."""
        possible = self.open and self.steps < 4 and self.code != "gone"
        self.tried(lambda: decommission.undo(self.found, SHOP, by()), possible=possible, news=True)
        if possible:
            self.open, self.steps, self.code, self.decided = False, 0, "", {}

    def tried(self, ask: Any, *, possible: bool, news: bool) -> None:
        """Ask for something, and compare with what has to come of it."""
        try:
            change: Change = ask()
        except TransitionRefused:
            assert not possible
            return
        assert possible
        assert len(change.events) == int(news)
        assert change.rollout.revision == self.found.revision + int(news)
        self.found = change.rollout

    @invariant()
    def nothing_but_the_record_changes(self) -> None:
        """The state stays, and the record says what was done."""
        one = self.found.definitions[SHOP]
        assert one.state is LifecycleState.ROLLBACK
        assert (one.decommission is not None) == (one.decommission_began_at is not None) == self.open
        if one.decommission is not None:
            record = one.decommission
            assert [each.step.number for each in record.steps] == list(range(1, self.steps + 1))
            assert (record.finished_at is not None) == (self.steps == 5 and self.code == "gone")


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
test_operators_in_any_order = AnyOrder.TestCase
