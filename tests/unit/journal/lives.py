"""Whole turns as sidecars carry them out: every fact of them has to be accepted."""

from random import Random

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.evaluation.scores import ScoreSource
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import DispatchId, TurnId
from sidecar.core.journal import rules
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import (
    AttemptRepeated,
    Body,
    CallsCancelled,
    CallsSettled,
    ChildClosed,
    ChildNoted,
    DelegationSettled,
    Progress,
    QuestionAnswered,
    ScoreRecorded,
    TurnEnded,
)
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import Values, What
from sidecar.core.journal.texts import OutcomeTexts, Texts
from subagents_errors import CallFailure
from tests.support.journal_drafts import (
    QUESTION,
    VALUES,
    a_draft,
    a_later_child,
    a_request,
    a_settlement,
    a_settling,
    a_start,
    a_taking,
    an_end,
    an_opening,
    progress,
    salted_fact,
    some_claims,
)

TURN = "turn-1"
SLOTS = ("shop", "rewards", "support")
ENDINGS = {
    ExecutionState.RUNNING: (What.FAILED, What.CLOSED),
    ExecutionState.WAITING_FOR_MERGE: (What.ACCEPTED, What.CLOSED),
    ExecutionState.FAILED: (What.CLOSED,),
}


class Life:
    """One turn, carried out without a mistake; what happens is drawn.

    Args:
        asides: children ask back as well, and answers and scores come in between and after the end. They are drawn
            apart, so that turns without them stay as they are: a file holds their bytes.

    Attributes:
        facts: all of them, in order.
        head: where the turn stands.
    """

    def __init__(self, seed: int, *, asides: bool = False) -> None:
        """Begin before the first fact."""
        self.chance = Random(seed)
        self._aside = Random(seed) if asides else None
        self.facts: list[Fact] = []
        self.head = TurnHead()
        self._by = "one"
        self._attempts: dict[int, int] = {}
        self._waiting: list[int] = []
        self._states: dict[int, ExecutionState] = {}
        self._delegated: set[int] = set()
        self._calls: dict[str, range] = {}
        self._dispatch_of: dict[int, str] = {}

    def whole(self) -> list[Fact]:
        """Carry out one or two dispatches to the end of the turn."""
        for number in range(self.chance.randint(0, 2)):
            self._dispatch(f"dispatch-{number}")
        self._end()
        self._answer_or_score()
        return self.facts

    def add(self, body: Body, texts: Texts) -> None:
        """Append a fact. Raises `AssertionError` if it is refused."""
        number = len(self.facts)
        draft = a_draft(TURN, self._by, 5_000 * number, body, texts)
        fact = salted_fact(draft, number.to_bytes(16, "big"), links_of(self.head, body))
        decided = rules.decide(self.head, [fact], ())
        assert isinstance(decided, rules.Accepted), decided
        self.facts.append(fact)
        self.head = decided.head

    def _dispatch(self, name: str) -> None:
        slots = [self.chance.choice(SLOTS) for _ in range(self.chance.randint(1, 4))]
        first = self.head.next_step
        self._calls[name] = range(first, first + len(slots))
        starting = [place for place in range(len(slots)) if self.chance.random() < 0.6]
        request = a_request(name, slots)
        self.add(*an_opening(request, None if self.head.bound else some_claims(TURN, SLOTS), first, starting))
        for place in starting:
            self._begins(name, first + place)
        later = [place for place in range(len(slots)) if place not in starting]
        while later or self._running(name):
            if self.chance.random() < 0.1:
                self._take(name)
            if later and self.chance.random() < 0.4:
                self._later(name, first, later.pop(), slots)
            elif self._running(name):
                self._happens(name, self.chance.choice(self._running(name)))

    def _running(self, name: str) -> list[int]:
        running = ExecutionState.RUNNING
        return [each for each, state in self._states.items() if state is running and self._dispatch_of[each] == name]

    def _begins(self, name: str, step: int) -> None:
        self._states[step], self._attempts[step], self._dispatch_of[step] = ExecutionState.RUNNING, 0, name

    def _take(self, name: str) -> None:
        self._by = "two" if self._by == "one" else "one"
        for each in self._calls:
            self.add(*a_taking(each, self.head.dispatches[DispatchId(each)].epoch + 1))
        for step in self._running(name):
            self._tell(ChildNoted, step, What.TAKEN_OVER)

    def _later(self, name: str, first: int, place: int, slots: list[str]) -> None:
        if self.chance.random() < 0.3:
            if self.chance.random() < 0.5:
                self.add(CallsCancelled(DispatchId(name), (place,)), Texts())
            self.add(*a_settling(name, [a_settlement(place, ran=False)]))
            return
        self.add(*a_later_child(name, a_start(f"{name}-later-{place}", slots[place], first + place)))
        self._begins(name, first + place)

    def _happens(self, name: str, step: int) -> None:
        what = self.chance.random()
        if what < 0.15:
            self._tell(ChildNoted, step, *self.chance.choice([(What.TOOL_REFUSED,), (What.DATA_WITHHELD,)]))
        elif what < 0.3:
            self._attempts[step] = max(1, self._attempts[step]) + 1
            self._tell(AttemptRepeated, step, What.REPEATED, What.ATTEMPT)
        elif what < 0.4:
            self._delegate(name, step)
        elif step in self._delegated:
            self._attempts[step] = max(1, self._attempts[step])
            self._tell(
                DelegationSettled,
                step,
                *self.chance.choice([(What.WAITING, What.ACCEPTED), (What.FAILED,)]),
                What.CLOSED,
            )
            self._states[step] = ExecutionState.CLOSED
        else:
            self._settle(name, step)

    def _delegate(self, name: str, step: int) -> None:
        new = self.head.next_step
        told = Progress(step, progress(step, What.DELEGATED).marks, self._attempts[step])
        body, texts = a_later_child(name, a_start(f"below-{new}", self.chance.choice(SLOTS), new, step), [told])
        self.add(body, Texts(contracts=texts.contracts, values=((),)))
        self._begins(name, new)
        self._delegated.add(new)

    def _answer_or_score(self) -> None:
        """Append, perhaps, the answer to an open question, and a score of a call that has its outcome."""
        if self._aside is None or self._aside.random() < 0.5:
            return
        for step, child in self.head.children.items():
            if (self.head.asked & ~self.head.answered) >> step & 1:
                answer = QuestionAnswered(child.dispatch_id, step, TurnId("turn-2"), DispatchId("dispatch-9"), 0)
                self.add(answer, Texts())
                break
        if not self.head.dispatches:
            return
        dispatch_id, dispatch = self._aside.choice([*self.head.dispatches.items()])
        for place in range(dispatch.calls):
            if dispatch.settled[0] >> place & 1:
                score_id, value = f"score-{len(self.facts)}", self._aside.random()
                score = ScoreRecorded(dispatch_id, place, score_id, "helpful", value, ScoreSource.JUDGE)
                self.add(score, Texts(values=(("It names the shop.",),)))
                break

    def _settle(self, name: str, step: int) -> None:
        place, revision = step - self._calls[name].start, self.chance.random() < 0.1
        attempts = max(self._attempts[step], self.chance.randint(0, 1))
        whats, state = ((What.WAITING,), ExecutionState.WAITING_FOR_MERGE)
        if self.chance.random() < 0.3:
            whats, state = ((What.FAILED,), ExecutionState.FAILED)
        self._attempts[step], self._states[step] = attempts, state
        if self._aside is not None and whats == (What.WAITING,) and self._aside.random() < 0.3:
            asked = a_settlement(place, outcome=Outcome.SUSPENDED, reason=CallFailure.NEEDS_INPUT)
            told = (progress(step, What.SUSPENDED, What.WAITING, attempts=attempts),)
            texts = Texts(outcomes=(OutcomeTexts(),), values=(QUESTION, ()))
            self.add(CallsSettled(DispatchId(name), (asked,), told), texts)
            self._answer_or_score()
            return
        self.add(*a_settling(name, [a_settlement(place, revision=int(revision))], whats, [step], attempts))
        self._answer_or_score()
        if self.chance.random() < 0.2:
            self.add(*a_settling(name, [a_settlement(place, revision=int(not revision))]))
        if self.chance.random() < 0.2:
            self._tell(ChildClosed, step, *ENDINGS[state])
            self._states[step] = ExecutionState.CLOSED

    def _tell(self, kind: type, step: int, *whats: What) -> None:
        values: list[Values] = []
        for what in whats:
            of_attempt = (self._attempts[step], f"attempt-{len(self.facts)}")
            values.append(of_attempt if what is What.ATTEMPT else VALUES.get(what, ()))
            if what is What.WAITING:
                values[-1] = ("succeeded", 0, False)
        told = progress(step, *whats, attempts=self._attempts[step])
        self.add(kind(DispatchId(self._dispatch_of[step]), (told,)), Texts(values=tuple(values)))

    def _end(self) -> None:
        body, texts = an_end(None if self.head.bound else some_claims(TURN, SLOTS))
        open_ones = {step: state for step, state in self._states.items() if state is not ExecutionState.CLOSED}
        told = tuple(progress(step, *ENDINGS[of], attempts=self._attempts[step]) for step, of in open_ones.items())
        values = tuple(VALUES.get(what, ()) for of in open_ones.values() for what in ENDINGS[of])
        body = TurnEnded(body.claims, body.close_reason, body.routing, told)
        self.add(body, Texts(user=texts.user, values=values, end=texts.end))
