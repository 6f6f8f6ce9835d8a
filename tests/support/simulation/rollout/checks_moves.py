"""Whether the record moves as the model says, step by step, and never for another reason."""

from collections.abc import Iterator

from tests.support.simulation.rollout import model, model_values, wishes
from tests.support.simulation.rollout.facts import (
    CONFIGURATION,
    DONE,
    HELD,
    KILL_SWITCH,
    WATCH,
    RolloutFacts,
    Step,
    not_configured,
    said_to_change,
    same,
)
from tests.support.simulation.rollout.flags_seen import (
    flag_existed,
    flag_may_be_unseen,
    flags_may_be,
    may_keep_away,
    needs_its_flag,
)
from tests.support.simulation.rollout.generating import USERS
from tests.support.simulation.rollout.journal import FAIL, PASS, Gated, PolicyAsked, Switched
from tests.support.simulation.rollout.model_serving import OFF, Moment, who_serves
from tests.support.simulation.rollout.outside import LEGAL
from tests.support.simulation.rollout.translating import happened_of, moves_of, rows_of
from tests.support.simulation.rollout.wishes import Wish

ALL_OFF = Moment(lambda name: OFF)
REFUSED_BY_RULE = "TRANSITION_REFUSED"


def every_step_follows_the_rules(facts: RolloutFacts) -> Iterator[str]:
    """What is on record after each step is what the model makes of the wish behind it, and nothing it never makes."""
    for step in facts.steps:
        if step.answered not in ("", DONE):
            continue
        if step.said is None:
            yield f"{_where(step)}: nobody has asked for it"
            continue
        if step.said.after is None:
            yield f"{_where(step)}: refused by the model ({step.said.why}), and done: {step.wish}"
        elif not same(step.said.after, step.found, step.decided):
            yield f"{_where(step)}: {step.wish}: {_difference(step.said.after, step.found)}"
        for problem in model.wrong_in(step.found):
            yield f"{_where(step)}: {problem}"


def refusals_have_reasons(facts: RolloutFacts) -> Iterator[str]:
    """What is kept as refused changes nothing, and is refused by the model, a policy or a gate."""
    for step in facts.steps:
        if step.answered in ("", DONE):
            continue
        wish, said = step.wish, step.said
        if step.changes or step.committed.change.transitions:
            yield f"{_where(step)}: refused with {step.answered}, and changed"
        if wish is None or said is None:
            yield f"{_where(step)}: nobody has asked for it"
        elif step.answered == REFUSED_BY_RULE:
            if said.after is not None and not _may_be_refused(facts, step, wish):
                yield f"{_where(step)}: refused, and the rules allow it: {wish}"
        elif said.after is None:
            yield f"{_where(step)}: {step.answered}, though the rules refuse it: {wish}"
        elif step.answered == "POLICY_DENIED":
            if not _denied(facts, step):
                yield f"{_where(step)}: no policy has denied {wish}"
        elif step.answered in ("GATE_FAILED", "GATE_HELD"):
            yield from _gates_said_no(facts, step)
        else:
            yield f"{_where(step)}: refused with {step.answered}"


def nobody_overwrites_anybody(facts: RolloutFacts) -> Iterator[str]:
    """Every write is about the revision that is on record, and a wish that names a revision about that one."""
    for step in facts.steps:
        change = step.committed.change
        if change.expected_revision != step.before.revision:
            yield f"{_where(step)}: written over revision {step.before.revision}, read was {change.expected_revision}"
        if change.rollout is not None and change.rollout.revision != step.before.revision + 1:
            yield f"{_where(step)}: revision {step.before.revision} is followed by {change.rollout.revision}"
        wish = step.wish
        if wish is not None and wish.revision not in (None, step.before.revision):
            yield f"{_where(step)}: the wish was about revision {wish.revision}, done to {step.before.revision}"


def flags_go_only_while_they_are_on(facts: RolloutFacts) -> Iterator[str]:
    """Without its flags it is everybody's: not while one of them keeps it away, or nobody can say."""
    for step in facts.steps:
        wish = step.wish
        if wish is None or wish.kind != wishes.RETIRE_FLAGS or step.answered != DONE or not step.changes:
            continue
        if not flags_may_be(facts, step.before.meant(wish), facts.span_of(wish, step.life, step.place), on=True):
            yield f"{_where(step)}: {wish}"


def in_test_only_what_has_a_flag_is_killed(facts: RolloutFacts) -> Iterator[str]:
    """Somebody had created the kill flag by then (TN-55)."""
    for step in facts.steps:
        for event in step.committed.change.transitions:
            it = step.before.of(str(event.digest))
            if (event.trigger, event.source_state) == ("kill_switch", "test") and not flag_existed(
                facts, it, step.place
            ):
                yield f"{_where(step)}: {event.subagent_id} was killed in test, and nobody had created its flag"


def no_configuration_ends_a_pause(facts: RolloutFacts) -> Iterator[str]:
    """With its flags off it serves nobody, and a new state of the configuration does not change that."""
    for step in facts.steps:
        if step.wish is not None:
            continue
        gated = [each.name for each in step.before.definitions if each.flag is not None and each.flags != "retired"]
        for user in USERS:
            had, has = (who_serves(slot, user, "", ALL_OFF) for slot in (step.before, step.found))
            it = step.found.of(has)
            if had is None and it is not None and it.name in gated:
                yield f"{_where(step)}: {user!r} has {it.name}, which its flags kept away"


def no_step_without_its_gates(facts: RolloutFacts) -> Iterator[str]:
    """Before each raise and promotion its gates have passed, for exactly that; or an override let a `fail` pass."""
    for step in facts.steps:
        if step.answered != DONE or not step.changes or step.said is None or step.wish is None:
            continue
        for gate in _gates_of(facts, step):
            if not _has_passed(facts, step, gate):
                yield f"{_where(step)}: without {gate}: {step.wish}"


def policies_are_heeded(facts: RolloutFacts) -> Iterator[str]:
    """No raise is larger than the policy of the vertical allows."""
    largest = facts.seen.schedule.largest_step
    for step in facts.steps:
        if largest and step.changes and step.wish is not None and step.wish.kind == wishes.SET_RAMP:
            it = step.before.meant(step.wish)
            if it is not None and step.wish.to - it.ramp > largest:
                yield f"{_where(step)}: from {it.ramp} to {step.wish.to}, the policy allows {largest}"


def lifecycles_move_for_a_reason(facts: RolloutFacts) -> Iterator[str]:
    """A state changes because a person asked, or because the kill flag was on and then off; never for an outage."""
    asked = {wish.request_id for wish in facts.seen.asked}
    for step in facts.steps:
        for event in step.committed.change.transitions:
            if event.actor == KILL_SWITCH:
                if not _fell(facts, step, str(event.digest)):
                    yield f"{_where(step)}: its kill flag was never on and then off"
            elif event.request_id.removesuffix(HELD) not in asked:
                yield f"{_where(step)}: moved by {event.actor} with {event.request_id}"


def every_step_is_audited(facts: RolloutFacts) -> Iterator[str]:
    """Each step writes exactly its rows: one for a transition, its own for all else; with who asked, and why."""
    for step in facts.steps:
        change, wish = step.committed.change, step.wish
        actors = {(each.actor, each.request_id.removesuffix(HELD)) for each in rows_of(change)}
        if wish is not None and actors - {(wish.subject, wish.request_id)}:
            yield f"{_where(step)}: audited as {actors}, asked for by {wish.subject} with {wish.request_id}"
        if step.answered not in ("", DONE):
            words = [str(each.what) for each in change.events]
            if change.transitions or words != ["held" if step.answered == "GATE_HELD" else "refused"]:
                yield f"{_where(step)}: a refusal is audited as {words}"
        elif step.said is not None and step.said.after is not None:
            moves, happened = moves_of(change.transitions), sorted(happened_of(change.events))
            wanted = sorted(step.said.happened)
            if moves != step.said.moves or happened != wanted:
                yield f"{_where(step)}: audited are {moves} {happened}, the model has {step.said.moves} {wanted}"
        if wish is None and actors and {actor for actor, _ in actors} not in ({CONFIGURATION}, {WATCH}):
            yield f"{_where(step)}: audited as {actors}"


def _may_be_refused(facts: RolloutFacts, step: Step, wish: Wish) -> bool:
    """Say whether something outside the record may have been in the way."""
    span = facts.span_of(wish, step.life, step.place)
    if said_to_change(step) and facts.holdups.may_wait(step.before, wish, span):
        return True
    if may_keep_away(step.before, wish) and flags_may_be(facts, step.before.meant(wish), span, on=False):
        return True
    if needs_its_flag(step.before, wish) and flag_may_be_unseen(facts, step.before.meant(wish), span):
        return True
    return not_configured(facts, wish, [step.before])


def _gates_of(facts: RolloutFacts, step: Step) -> Iterator[str]:
    assert step.said is not None
    assert step.wish is not None
    yield from step.said.gates
    legal_from, it = facts.seen.schedule.legal_from, step.before.meant(step.wish)
    raised = step.wish.kind == wishes.SET_RAMP and it is not None and step.wish.to > it.ramp
    if legal_from and raised and step.wish.to >= legal_from:
        yield LEGAL


def _about(step: Step, gate: str) -> tuple[str, str, int, int]:
    assert step.wish is not None
    it = step.before.meant(step.wish)
    assert it is not None
    to = step.wish.to if step.wish.kind == wishes.SET_RAMP else it.ramp
    return gate, it.content, it.ramp, to


def _asked(facts: RolloutFacts, step: Step, gate: str) -> list[Gated]:
    assert step.wish is not None
    about = _about(step, gate)
    told = facts.gated.get(step.wish.request_id, ())
    mine = (each for place, each in told if place < step.place and each.life == step.life and not each.dry_run)
    return [each for each in mine if each.about == about]


def _has_passed(facts: RolloutFacts, step: Step, gate: str) -> bool:
    return any(each.counts == PASS or _waived(step, each) for each in _asked(facts, step, gate))


def _waived(step: Step, told: Gated) -> bool:
    gate, content, since, to = told.about
    it = step.before.of(content)
    fitting = [each for each in (it.waivers if it else ()) if (each.gate, each.since, each.to) == (gate, since, to)]
    return told.counts == FAIL and any(told.wall < each.until for each in fitting)


def _gates_said_no(facts: RolloutFacts, step: Step) -> Iterator[str]:
    gates = list(_gates_of(facts, step))
    told = [each for gate in gates for each in _asked(facts, step, gate)]
    failed = any(each.counts == FAIL and not _waived(step, each) for each in told)
    if step.answered == "GATE_FAILED" and not failed:
        yield f"{_where(step)}: no gate has failed"
    assert step.wish is not None
    began = facts.began.get(step.wish.request_id, ())
    attempts = sum(1 for place, _, each in began if place < step.place and each.life == step.life)
    passes = [[each for each in told if each.about[0] == gate and each.counts == PASS] for gate in gates]
    held = any(len(each) < attempts for each in passes)
    if step.answered == "GATE_HELD" and not held:
        yield f"{_where(step)}: every gate has passed"


def _denied(facts: RolloutFacts, step: Step) -> bool:
    assert step.wish is not None
    if not 0 <= step.wish.to <= model_values.EVERYBODY:
        return True  # by the platform's own rules, which are no plugin
    it = step.before.meant(step.wish)
    entries = facts.seen.journal.entries[: step.place]
    asked = (entry for _, entry in entries if isinstance(entry, PolicyAsked))
    return any(each.denied and it and (each.digest, each.subject) == (it.content, step.wish.subject) for each in asked)


def _fell(facts: RolloutFacts, step: Step, content: str) -> bool:
    """Say whether the kill flag was really on at some time, and really off after it."""
    it = step.before.of(content)
    known = [each for state in facts.states for slot in state.slots.values() for each in slot.definitions]
    names = {each.flag for each in known if it is not None and each.name == it.name}
    was_on = False
    for _, entry in facts.seen.journal.entries[: step.place]:
        if isinstance(entry, Switched) and entry.name in names:
            was_on = was_on or entry.on
            if was_on and not entry.on:
                return True
    return False


def _difference(wanted: model_values.Slot, found: model_values.Slot) -> str:
    """Say where the model and the record are not the same."""
    known = {each.content: each for each in found.definitions}
    others = [f"{each} is {known.get(each.content)}" for each in wanted.definitions if each != known.get(each.content)]
    heads = [
        (each.revision, each.active, len(each.definitions), each.experiment, each.curve) for each in (wanted, found)
    ]
    return f"the model has {heads[0]}, on record is {heads[1]}; {'; '.join(others)}"


def _where(step: Step) -> str:
    return f"at {step.at:.3f} {step.life} {step.before.name}"
