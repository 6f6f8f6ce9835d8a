"""Whether people are told the truth, the same each time, and lose nothing that they were told."""

from collections.abc import Iterable, Iterator

from tests.support.simulation.rollout import model, wishes
from tests.support.simulation.rollout.facts import DONE, RolloutFacts, not_configured
from tests.support.simulation.rollout.flags_seen import flag_may_be_unseen, flags_may_be, may_keep_away, needs_its_flag
from tests.support.simulation.rollout.journal import Answered, Troubled
from tests.support.simulation.rollout.model_values import Definition, Slot
from tests.support.simulation.rollout.wishes import Wish

RECORD = "record"
CRASH = "crash"
ASKED_OUTSIDE = ("GATE_FAILED", "GATE_HELD", "POLICY_DENIED")
LONGEST = 4.0
"""Seconds that something that hangs may take to be told of."""
UNKNOWN_AGAIN = ("STORE_UNAVAILABLE", "UNKNOWN_DEFINITION", "ROLE_REQUIRED")
"""Reasons that are not kept, and hold for the moment only."""


def every_answer_is_on_record(facts: RolloutFacts) -> Iterator[str]:
    """What is answered as done was on record before, as it is answered; only stops may hold without."""
    for place, at, told in _told(facts):
        wish, answer = told.wish, told.answer
        if answer is None or wish.dry_run:
            continue
        steps = [
            each for each in facts.steps if each.wish == wish and each.place < place and each.answered in ("", DONE)
        ]
        if answer.edits and wish.kind not in wishes.STOPS:
            if not facts.seen.schedule.read_only:
                yield f"{_said(told, at)}: edits, and the backend can be written"
            if any(each.changes for each in steps):
                yield f"{_said(told, at)}: edits are asked for, and it was done"
            continue
        if not answer.changed and wish.kind == wishes.KILL and answer.state == "rollback":
            continue  # it was so already, and there is nothing to put on record
        if not steps:
            if wish.kind not in wishes.STOPS or RECORD in answer.reached:
                yield f"{_said(told, at)}: not on record"
            continue
        it = steps[-1].found.of(answer.digest) or next(
            (each.found.of(answer.digest) for each in steps if each.found.of(answer.digest)), None
        )
        held = wish.kind in wishes.STOPS and RECORD not in answer.reached
        if not held and (it is None or (answer.state, answer.ramp) != (it.state, it.ramp)):
            yield f"{_said(told, at)}: answered {answer.state} {answer.ramp}, on record is {it}"
        if not held and answer.revision not in [each.found.revision for each in steps]:
            yield f"{_said(told, at)}: answered revision {answer.revision}"


def nothing_is_done_twice(facts: RolloutFacts) -> Iterator[str]:
    """One wish is one change at most, however often and wherever it is asked for; a dry run is none."""
    for wish in dict.fromkeys(facts.seen.asked):
        done = [step for step in facts.steps if step.wish == wish and step.changes]
        if len(done) > (0 if wish.dry_run else 1):
            yield f"{wish}: done {len(done)} times, first at {done[0].at:.3f}"
        if wish.dry_run and any(step.wish == wish for step in facts.steps):
            yield f"{wish}: a dry run is on record"


def everybody_is_told_the_same(facts: RolloutFacts) -> Iterator[str]:
    """Each attempt of one wish is answered alike; a kill that was refused may be possible later."""
    for wish in dict.fromkeys(facts.seen.asked):
        told = [each for _, _, each in facts.answers.get(wish.request_id, ()) if each.wish == wish]
        unread = ("REVISION_CONFLICT",) if wish.revision is None else ()  # of a content that may come back
        final = [
            each
            for each in told
            if each.reason not in UNKNOWN_AGAIN + unread and not (each.answer and each.answer.edits)
        ]
        if wish.kind in wishes.STOPS or wish.dry_run or _id_used_twice(facts, wish):
            continue
        said = {(each.reason, _gist(each)) for each in final}
        if len(said) > 1:
            yield f"{wish}: told {sorted(map(str, said))}"


def refusals_are_true(facts: RolloutFacts) -> Iterator[str]:
    """A conflict, an unknown name, a used id, a store that is away: each was so at some time while it was asked."""
    for place, at, told in _told(facts):
        if told.reason and not _true(facts, told, place):
            yield f"{_said(told, at)}: it was not so: {told.message}"


def _true(facts: RolloutFacts, told: Answered, place: int) -> bool:
    wish = told.wish
    match told.reason:
        case "REVISION_CONFLICT":
            true = _in_conflict(facts, told, place)
        case "UNKNOWN_DEFINITION":
            states = facts.states_between(_first_shown(facts, told), facts.number_at(place))
            true = any(all(it.name != wish.name for it in _all(slots.values())) for slots in states)
        case "REQUEST_ID_REUSED":
            true = _id_used_twice(facts, wish)
        case "STORE_UNAVAILABLE":
            true = _trouble(facts, told.life, _began(facts, told), place)
        case _:
            kept = any(each.wish == wish and each.answered == told.reason for each in facts.steps)
            asked_outside = wish.dry_run and told.reason in ASKED_OUTSIDE  # which a dry run leaves no trace of
            true = kept or asked_outside or (told.reason != CRASH and _refused_somewhere(facts, told, place))
    return true


def _id_used_twice(facts: RolloutFacts, wish: Wish) -> bool:
    return any(each != wish and each.request_id == wish.request_id for each in facts.seen.asked)


def _in_conflict(facts: RolloutFacts, told: Answered, place: int) -> bool:
    """Say whether the revision, or the content, that was named was not on record, and the wish is not answered."""
    wish = told.wish
    if any(step.wish == wish and step.place < place for step in facts.steps):
        return False
    slots = (each for state in facts.states_between(0, facts.number_at(place)) for each in state.values())
    mine = (each for each in slots if any(it.name == wish.name for it in each.definitions))
    named = wish.instead not in ("", wishes.NOBODY)
    return any(
        wish.revision not in (None, each.revision)
        or each.meant(wish) is None
        or (named and each.of(wish.instead) is None)
        for each in mine
    )


def _all(slots: Iterable[Slot]) -> Iterator[Definition]:
    return (it for slot in slots for it in slot.definitions)


def _refused_somewhere(facts: RolloutFacts, told: Answered, place: int) -> bool:
    for slots in facts.states_between(_first_shown(facts, told), facts.number_at(place)):
        if not_configured(facts, told.wish, slots.values()):
            return True
        for slot in slots.values():
            span = facts.span_of(told.wish, told.life, place)
            if facts.holdups.may_wait(slot, told.wish, span):
                return True
            keeps_away = flags_may_be(facts, slot.meant(told.wish), span, on=False)
            if may_keep_away(slot, told.wish) and keeps_away:
                return True
            if needs_its_flag(slot, told.wish) and flag_may_be_unseen(facts, slot.meant(told.wish), span):
                return True
            for wall in (0.0, told.wish.until):  # an override may have expired meanwhile
                if slot.meant(told.wish) is not None and model.decide(slot, told.wish, wall).after is None:
                    return True
    return False


def _first_shown(facts: RolloutFacts, told: Answered) -> int:
    began = facts.began[told.wish.request_id]
    return min(facts.number_of(each.shows) for _, _, each in began)


def _began(facts: RolloutFacts, told: Answered) -> int:
    found = facts.began[told.wish.request_id]
    return next(
        place
        for place, _, each in found
        if (each.wish, each.attempt, each.life) == (told.wish, told.attempt, told.life)
    )


def _trouble(facts: RolloutFacts, life: str, first: int, last: int) -> bool:
    """Say whether something was away for a sidecar; what hangs was told when it began to."""
    entries = facts.seen.journal.entries
    since = entries[first][0] - LONGEST
    return any(isinstance(entry, Troubled) and entry.life == life and at >= since for at, entry in entries[:last])


def _gist(told: Answered) -> object:
    answer = told.answer
    if answer is None:
        return None
    return answer.digest, answer.state, answer.ramp, answer.active, answer.revision, answer.decommission


def _told(facts: RolloutFacts) -> Iterator[tuple[int, float, Answered]]:
    for answers in facts.answers.values():
        yield from answers


def _said(told: Answered, at: float) -> str:
    wish: Wish = told.wish
    return f"at {at:.3f} {told.life} {wish.kind} {wish.request_id} of {wish.name}: {told.reason or 'done'}"
