"""Promises about questions: each is answered once, for its user, in time, and by the version that asked."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.records import QuestionAnswered
from sidecar.policy.protocols import Continuation
from tests.support.simulation.record.facts import INSTANT, RecordFacts
from tests.support.simulation.runner import RunSeen


def questions_are_answered_once(facts: RecordFacts) -> Iterator[str]:
    """One answer on record, and one child that continues; each of its attempts is given the same."""
    for child_id, kept in facts.answered.items():
        if len(kept) > 1:
            yield f"{child_id}: answered by {[each.record for each in kept]}"
    children: dict[str, set[str]] = {}
    for run, continuation in _continuing(facts):
        children.setdefault(continuation.child_id, set()).add(run.request.child_id)
    yield from (f"{each}: continued by {sorted(those)}" for each, those in children.items() if len(those) > 1)


def continuations_are_of_their_user(facts: RecordFacts) -> Iterator[str]:
    """Principal, conversation and sub-agent are those of the child that asked, and so is what it left."""
    for run, continuation in _continuing(facts):
        asking = [each for each in facts.seen.hosts.runs if each.request.child_id == continuation.child_id]
        if not asking:
            yield f"{run.key} continues {continuation.child_id}, which never ran"
            continue
        mine, theirs = run.request.context, asking[-1].request.context
        if (mine.principal, mine.episode_id) != (theirs.principal, theirs.episode_id):
            yield f"{run.key} of {mine.principal} in {mine.episode_id} continues work of {theirs.principal}"
        if run.request.card.definition.slot != asking[-1].request.card.definition.slot:
            yield f"{run.key} continues the work of another sub-agent"
        if continuation.state.decode() != asking[-1].key:
            yield f"{run.key} is given {continuation.state!r}, {asking[-1].key} asked"


def continuations_are_of_the_version_that_asked(facts: RecordFacts) -> Iterator[str]:
    """After a rollback nothing is continued that the other version began."""
    for run, continuation in _continuing(facts):
        for each in facts.seen.hosts.runs:
            if each.request.child_id == continuation.child_id and each.request.card.digest != run.request.card.digest:
                yield f"{run.key} continues with {run.request.card.digest} what {each.request.card.digest} asked"


def answers_come_in_time(facts: RecordFacts) -> Iterator[str]:
    """None is taken after the question has expired, by the clock of the sidecar that takes it."""
    for kept in (each for those in facts.answered.values() for each in those):
        assert isinstance(kept.record, QuestionAnswered)
        for dispatch in facts.dispatches.values():
            outcomes = [each.outcome for settled in dispatch.settled.values() for each in settled]
            for outcome in outcomes:
                late = outcome.question is not None and kept.record.answered_at >= outcome.question.expires_at
                if outcome.child_id == kept.record.child_id and late:
                    yield f"{outcome.child_id}: answered at {kept.record.answered_at}, after it expired"


def answers_are_durable_first(facts: RecordFacts) -> Iterator[str]:
    """No sub-agent continues before it is on record that it does, nor by another call than the one on record."""
    for run, continuation in _continuing(facts):
        kept = facts.answered.get(continuation.child_id, [])
        if not kept or kept[0].at > run.began_at + INSTANT:
            yield f"{run.key} continues {continuation.child_id} before that is on record"


def answers_begin_nothing_new(facts: RecordFacts) -> Iterator[str]:
    """A call that brings an answer continues, or does not run."""
    answering = {
        (told.turn_id, call.call_id)
        for told in facts.told("dispatch")
        for call in told.request.calls
        if call.answering is not None
    }
    for run in facts.seen.hosts.runs:
        turn_id = run.request.context.turn_id
        if (turn_id, run.key.rpartition(".")[2]) in answering and run.request.continuation is None:
            yield f"{run.key} brings an answer, and began new work"


def answers(facts: RecordFacts) -> Counter[str]:
    """Count what became of answers, as clients were told."""
    counted: Counter[str] = Counter()
    for dispatch in facts.dispatches.values():
        for settled in dispatch.settled.values():
            outcome = settled[-1].outcome
            reason = "" if outcome.reason is None else outcome.reason.name
            if outcome.outcome is Outcome.SUSPENDED or reason.startswith("RECEIPT_"):
                counted[f"told: {reason}"] += 1
    counted["question answered"] += len(facts.answered)
    return counted


def _continuing(facts: RecordFacts) -> Iterator[tuple[RunSeen, Continuation]]:
    for run in facts.seen.hosts.runs:
        if run.request.continuation is not None:
            yield run, run.request.continuation


_ALL: Final = (
    questions_are_answered_once,
    continuations_are_of_their_user,
    continuations_are_of_the_version_that_asked,
    answers_come_in_time,
    answers_are_durable_first,
    answers_begin_nothing_new,
)
QUESTION_INVARIANTS: Final[Mapping[str, Callable[[RecordFacts], Iterator[str]]]] = MappingProxyType(
    {check.__name__: check for check in _ALL}
)


def question_violations(facts: RecordFacts) -> list[tuple[str, str]]:
    """Return (promise, how it was broken) for each broken promise about questions."""
    return [(name, problem) for name, check in QUESTION_INVARIANTS.items() for problem in check(facts)]
