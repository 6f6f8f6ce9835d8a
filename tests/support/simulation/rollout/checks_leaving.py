"""Decommissions and declared configurations: only when nothing is in the way, audited, and nobody is moved."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from sidecar.core.rollout.events import RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts
from tests.support.simulation.rollout import wishes
from tests.support.simulation.rollout.checks_binds import judged_binds
from tests.support.simulation.rollout.facts import DONE, RolloutFacts, Step, is_late, said_to_change, same, seconds
from tests.support.simulation.rollout.generating import USERS
from tests.support.simulation.rollout.journal import Bound, Listed, SaidLate
from tests.support.simulation.rollout.model_serving import CONTROL, ON, Moment, who_serves
from tests.support.simulation.rollout.model_values import STEPS, Definition, Slot

ALL_ON = Moment(lambda name: ON)


def nothing_is_taken_away_in_use(facts: RolloutFacts) -> Iterator[str]:
    """No decommission begins or goes on while turns are bound to it, or the configuration as loaded there needs it."""
    for step in facts.steps:
        wish = step.wish
        if wish is None or step.answered != DONE or not said_to_change(step):
            continue
        why = facts.holdups.must_wait(step.before, wish, facts.span_of(wish, step.life, step.place))
        if why:
            yield f"{_where(step)}: {why}, and it was done: {wish}"


def decommissions_are_audited(facts: RolloutFacts) -> Iterator[str]:
    """Each of their changes is one event with the fields of FR-10, both states `rollback`, and nothing else is."""
    for step in facts.steps:
        change, wish = step.committed.change, step.wish
        of_one = wish is not None and wish.kind in wishes.OF_LEAVING and step.answered == DONE and step.changes
        marked = [each for each in change.events if each.decommission is not None]
        if len(marked) != of_one:
            yield f"{_where(step)}: {len(marked)} events of a decommission: {wish}"
        for event in marked:
            mark = event.decommission
            assert mark is not None
            if wish is None:  # that no step asked for it is told above
                continue
            word = STEPS[wish.step - 1] if wish.kind == wishes.TAKE else wish.kind
            found = (mark.step, str(mark.source_state), str(mark.target_state), str(mark.trigger))
            it = step.found.of(str(event.digest))
            if found != (word, "rollback", "rollback", "operator_initiated") or it is None:
                yield f"{_where(step)}: audited as {found}, it was {word}"
            elif (mark.agent_definition_commit, mark.cohort.ramp_step_percent) != (it.content, it.ramp / 100):
                yield f"{_where(step)}: audited with {mark.agent_definition_commit} at {mark.cohort.ramp_step_percent}"


def what_is_undone_is_as_it_was(facts: RolloutFacts) -> Iterator[str]:
    """A begin adds its window and nothing else; an undo leaves the definition as it was before, fact by fact."""
    before: dict[str, DefinitionFacts] = {}
    now: dict[str, DefinitionFacts] = {}
    for step in facts.steps:
        rollout, wish = step.committed.change.rollout, step.wish
        if rollout is None:
            continue
        if wish is not None and wish.kind in (wishes.BEGIN, wishes.UNDO):
            content = str(step.committed.change.events[0].digest)
            after = rollout.definitions[step.committed.change.events[0].digest]
            if wish.kind == wishes.BEGIN:
                before |= {content: now[content]} if content in now else {}
                record = after.decommission
                window = seconds(record.due_at) - seconds(record.began_at) if record is not None else 0.0
                if abs(window - facts.seen.schedule.window) > 1e-3:
                    yield f"{_where(step)}: the window is {window} s"
            elif after != _aimed_as(after, before.pop(content, None)):
                yield f"{_where(step)}: undone, and it is {after}"
        now |= {str(digest): each for digest, each in rollout.definitions.items()}


def nobody_is_bound_to_what_leaves(facts: RolloutFacts) -> Iterator[str]:
    """Whoever shows that a decommission has begun binds nobody to it any more."""
    for each in judged_binds(facts)[0]:
        slots = facts.states[each.state].slots
        for slot, content in each.bound.serves:
            it = slots[slot].of(content) if slot in slots else None
            if it is not None and it.leaving is not None:
                yield f"at {each.at:.3f} {each.bound.life}: {each.bound.turn} is bound to {it.name}, which is leaving"


def configurations_move_nobody(facts: RolloutFacts) -> Iterator[str]:
    """What is declared moves no ramp: the same people are served by the same, but for a control arm of another mode."""
    for step in facts.steps:
        if step.wish is None or step.wish.kind != wishes.CONFIGURE or not step.changes:
            continue
        found = step.found
        declared = replace(
            step.before, experiment=found.experiment, curve=found.curve, revision=step.before.revision + 1
        )
        if not same(declared, found, step.decided):
            yield f"{_where(step)}: more than mode and curve is another: {step.wish}"
        arms = ("", "treatment", CONTROL) if step.before.experiment == step.found.experiment else ("", "treatment")
        for user in USERS:
            for arm in arms:
                had, has = (who_serves(slot, user, arm, ALL_ON) for slot in (step.before, step.found))
                if had != has:
                    yield f"{_where(step)}: {user!r} {arm} had {had}, now {has}: {step.wish}"


def what_is_overdue_is_said(facts: RolloutFacts) -> Iterator[str]:
    """A decommission that has outlived its window is said aloud at every sidecar and listed so; no other one is.

    It is on the audit once, whichever sidecar was first: that no other one is there, the model says step by step.
    """
    window = facts.seen.schedule.window
    for place, at, said in facts.seen.journal.of(SaidLate):
        states = facts.states_between(0, facts.number_at(place))
        if not any(is_late(it, window, said.wall) for slots in states for it in _of_name(slots.values(), said.name)):
            yield f"at {at:.3f} {said.life} says that {said.name} is overdue"
    leaving = [it for slot in facts.states[-1].slots.values() for it in slot.definitions if it.leaving is not None]
    last = max((entry.wall for _, _, entry in facts.seen.journal.of(Bound)), default=0.0)
    told = {(said.life, said.name): True for _, _, said in facts.seen.journal.of(SaidLate)}
    for it in (each for each in leaving if is_late(each, window, last)):
        for replica in facts.seen.fleet.standing:
            if (replica.life, it.name) not in told:
                yield f"{replica.life} never says that {it.name} is overdue"
        if not any(event.digest == it.content for event in _on_record(facts)):
            yield f"the audit never says that {it.name} is overdue"
    begun = _begins(facts)
    for content, times in Counter(str(event.digest) for event in _on_record(facts)).items():
        if times > begun[content]:
            yield f"{times} rows of the audit say that {content} is overdue; it was begun {begun[content]} times"
    for _, at, listed in facts.seen.journal.of(Listed):
        pending = [it for it in leaving if it.leaving is not None and not it.leaving.over]
        wanted = sorted((it.content, is_late(it, window, listed.wall), True) for it in pending)
        if sorted(listed.rows) != wanted:
            yield f"at {at:.3f} {listed.life} lists {sorted(listed.rows)}, there are {wanted}"


def _on_record(facts: RolloutFacts) -> Iterator[RolloutEvent]:
    for step in facts.steps:
        yield from (each for each in step.committed.change.events if each.what == "decommission_overdue")


def _begins(facts: RolloutFacts) -> Counter[str]:
    """Return how often the decommission of each content began, before the run or in it."""
    first = (it.content for slot in facts.states[0].slots.values() for it in slot.definitions if it.leaving is not None)
    began = (step for step in facts.steps if step.changes and step.wish is not None and step.wish.kind == wishes.BEGIN)
    return Counter((*first, *(str(event.digest) for step in began for event in step.committed.change.events)))


def _of_name(slots: Iterable[Slot], name: str) -> Iterator[Definition]:
    for slot in slots:
        yield from (each for each in slot.definitions if each.name == name)


def _aimed_as(after: DefinitionFacts, before: DefinitionFacts | None) -> DefinitionFacts:
    """Return what was before, but for the content of its target, which may have been revised meanwhile."""
    known = msgspec.structs.replace(after, decommission=None, decommission_began_at=None) if before is None else before
    return msgspec.structs.replace(known, target=after.target)


def _where(step: Step) -> str:
    return f"at {step.at:.3f} {step.life} {step.before.name}"
