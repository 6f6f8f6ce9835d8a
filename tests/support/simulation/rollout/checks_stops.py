"""Kills and flags that fall: at once where they were asked for, once on record, and lost by nobody."""

from collections.abc import Iterator, Mapping

from tests.support.simulation.rollout import wishes
from tests.support.simulation.rollout.facts import RolloutFacts
from tests.support.simulation.rollout.journal import Counted, Fetched, Shown, Switched
from tests.support.simulation.rollout.model_values import Definition, Slot
from tests.support.simulation.rollout.schedule import Blow

KNOWN_AFTER = 1.2
"""Seconds after which a loop that looks every second has looked."""
WATCHED = ("created", "on")
"""Flags that the sidecar has made, and not let go."""


def flags_that_fall_kill(facts: RolloutFacts) -> Iterator[str]:
    """Whoever has seen a kill flag on and then off, whatever was between, has killed by the time all is calm."""
    entries = facts.seen.journal.entries[: facts.seen.last]
    calm = facts.number_at(facts.seen.last)
    slots = facts.states[calm].slots
    paused = {each.place for each in facts.seen.schedule.mishaps if each.blow is Blow.PAUSE}
    standing = {each.life for each in facts.seen.fleet.standing if each.place not in paused}
    for it in (each for slot in slots.values() for each in slot.definitions):
        if it.state != "promote" or it.flags not in WATCHED or it.flag is None:
            continue
        version, known, was_on = _version_since(facts, it, calm), dict[str, float](), dict[str, float]()
        for at, entry in entries:
            if isinstance(entry, Shown) and entry.version >= version and entry.life in standing:
                known.setdefault(entry.life, at)
            if isinstance(entry, Fetched) and entry.begun > known.get(entry.life, 1e9) + KNOWN_AFTER:
                if was_on.get(entry.life, at) + KNOWN_AFTER < at and it.flag not in entry.on:
                    yield f"{it.name} is in promote, though {entry.life} has seen its flag fall at {at:.3f}"
                    return
                if it.flag in entry.on:
                    was_on.setdefault(entry.life, at)
                else:
                    was_on.pop(entry.life, None)  # it fell before the sidecar can have looked


def flags_that_fell_unseen_kill(facts: RolloutFacts) -> Iterator[str]:
    """In the end nobody is in `promote` whose kill flag was switched on for it, and is off; whoever saw it fall."""
    for it in (each for slot in facts.states[-1].slots.values() for each in slot.definitions):
        if it.state != "promote" or it.flags != "on" or it.flag is None:
            continue
        version = _version_since(facts, it, len(facts.states) - 1)
        since = next(each.place for each in facts.states if each.version >= version)
        on = was_on = False
        for place, (_, entry) in enumerate(facts.seen.journal.entries):
            if isinstance(entry, Switched) and entry.name == it.flag:
                on = entry.on
            was_on = was_on or (on and place > since)
        if was_on and not on:
            yield f"{it.name} is in promote, and its flag {it.flag} has fallen"


def kills_reach_the_record(facts: RolloutFacts) -> Iterator[str]:
    """What was killed anywhere, and answered for, is in `rollback` in the end; each kill is counted once at most."""
    last = facts.states[-1].slots
    for answers in facts.answers.values():
        for place, at, answered in answers:
            wish = answered.wish
            if wish.kind != wishes.KILL or answered.answer is None or wish.dry_run:
                continue
            forgets = any("does NOT survive a restart" in warning for warning in answered.answer.warnings)
            if forgets and any(not ended.began and ended.life == answered.life for _, _, ended in facts.lived):
                continue  # its disk was away, too, and it was killed: the answer said what that means
            it = _now(facts, last, place, answered.answer.slot, answered.answer.digest)
            if it is not None and it.state != "rollback":
                yield f"{wish.request_id}: killed at {at:.3f} at {answered.life}, in the end in {it.state}"
    yield from _counted_twice(facts)


def _counted_twice(facts: RolloutFacts) -> Iterator[str]:
    """No sidecar counts a kill more often than there was one."""
    counted: dict[tuple[str, str], int] = {}
    killed: dict[str, int] = {}
    for _, entry in facts.seen.journal.entries:
        if isinstance(entry, Counted) and entry.what == "killed":
            counted[entry.life, entry.of] = counted.get((entry.life, entry.of), 0) + 1
    for step in facts.steps:
        for event in step.committed.change.transitions:
            if event.trigger == "kill_switch":
                killed[event.subagent_id] = killed.get(event.subagent_id, 0) + 1
    for (life, name), times in counted.items():
        if times > killed.get(name, 0):
            yield f"{life} counted {name} as killed {times} times; it was killed {killed.get(name, 0)} times"


def _version_since(facts: RolloutFacts, it: Definition, number: int) -> int:
    """Return the version from which on a definition stands as in a state, as far as its flags are concerned."""
    version = facts.states[number].version
    for state in reversed(facts.states[: number + 1]):
        stands = [each for slot in state.slots.values() for each in slot.definitions if each.content == it.content]
        if not any((each.state, each.flags, each.flag) == (it.state, it.flags, it.flag) for each in stands):
            break
        version = state.version
    return version


def _now(facts: RolloutFacts, last: Mapping[str, Slot], place: int, slot: str, content: str) -> Definition | None:
    """Return a definition as it is in the end; one that was revised since, by its name and shape."""
    if slot not in last:
        return None
    it = last[slot].of(content)
    if it is not None:
        return it
    for state in reversed(facts.states):
        before = state.slots[slot].of(content) if slot in state.slots else None
        if before is not None:
            same = [each for each in last[slot].definitions if (each.name, each.shape) == (before.name, before.shape)]
            return same[-1] if same else None
    return None
