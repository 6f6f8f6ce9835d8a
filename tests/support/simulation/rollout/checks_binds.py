"""Whether everybody is served as the model says, nobody beyond it, and each turn keeps what it was bound to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.support.simulation.rollout import cards
from tests.support.simulation.rollout.facts import RolloutFacts
from tests.support.simulation.rollout.flags import TIMING
from tests.support.simulation.rollout.holding import Holdings
from tests.support.simulation.rollout.journal import Answered, Bound, Fetched
from tests.support.simulation.rollout.model_serving import CONTROL, OFF, ON, UNKNOWN, Moment, who_serves
from tests.support.simulation.rollout.model_values import Definition, Slot

STALE_AFTER = TIMING.max_staleness.total_seconds()


@dataclass(frozen=True, slots=True)
class Judged:
    """A bind of a user.

    Attributes:
        state: number of the state that it shows.
        flags: as they were there; None: nobody could say.
        held: contents that were stopped there, or may have been.
        at_hand: contents that were in a configuration that the sidecar has loaded.
    """

    place: int
    at: float
    bound: Bound
    state: int
    flags: Mapping[str, str] | None
    held: frozenset[str]
    at_hand: frozenset[str]


def everybody_is_served_by_the_rules(facts: RolloutFacts) -> Iterator[str]:
    """Each bind serves what the model says of a state that is no older than what this sidecar has shown or answered."""
    _, problems = judged_binds(facts)
    yield from problems


def no_user_leaves_as_the_ramp_rises(facts: RolloutFacts) -> Iterator[str]:
    """Who was served by a definition still is, as long as it is active, not below the ramp of then, its flags on."""
    judged, _ = judged_binds(facts)
    had: dict[tuple[str, str, str], tuple[Judged, int]] = {}
    for each in judged:
        slots = facts.states[each.state].slots
        for slot, content in each.bound.serves:
            it = slots[slot].of(content) if slot in slots else None
            if it is not None and slots[slot].active == content:
                had[each.bound.user, each.bound.arm, it.name] = (each, it.ramp)
        for (user, arm, name), (earlier, ramp) in had.items():
            if (user, arm) != (each.bound.user, each.bound.arm) or earlier is each:
                continue
            left = _left(facts, each, name, ramp)
            if left:
                yield f"{user!r} had {name} at {ramp} (at {earlier.at:.3f}); {left}"


def turns_keep_what_they_were_bound_to(facts: RolloutFacts) -> Iterator[str]:
    """A turn that is bound again, or found by its token elsewhere, is what it was, whatever has happened meanwhile."""
    first: dict[tuple[str, str], Bound] = {}
    for _, at, bound in facts.seen.journal.of(Bound):
        if bound.reason not in ("", "SURFACE_TOKEN_EXPIRED") or (bound.reason and not bound.by_token):
            yield f"at {at:.3f} {bound.life}: {bound.turn} was refused with {bound.reason}"
        if bound.reason:
            continue
        if not bound.again and not bound.by_token:
            first[bound.turn, bound.life] = bound
            continue
        if bound.by_token:
            before = next((each for (turn, _), each in first.items() if turn == bound.turn), None)
        else:
            before = first.setdefault((bound.turn, bound.life), bound)
        if before is not None and before.serves != bound.serves:
            yield f"at {at:.3f} {bound.life}: {bound.turn} had {before.serves}, now {bound.serves}"


def all_is_shown_in_the_end(facts: RolloutFacts) -> Iterator[str]:
    """When all is well again, every sidecar shows what is on record, and what it shows is there to be served."""
    newest = facts.states[-1].version
    for _, at, bound in facts.seen.journal.of(Bound):
        if bound.turn.startswith("last") and bound.shows < newest:
            yield f"at {at:.3f} {bound.life} shows version {bound.shows}, on record is {newest}"


def judged_binds(facts: RolloutFacts) -> tuple[list[Judged], list[str]]:
    """Return the binds with the state that each shows, and what fits no state."""
    if facts.binds is None:
        facts.binds = _judged(facts)
    binds: tuple[list[Judged], list[str]] = facts.binds
    return binds


def _judged(facts: RolloutFacts) -> tuple[list[Judged], list[str]]:
    """Go through the journal."""
    judged: list[Judged] = []
    problems: list[str] = []
    fetched: dict[str, Fetched] = {}
    shown: dict[str, int] = {}
    loaded: dict[str, dict[str, bool]] = {}
    holdings = Holdings(facts)
    for place, (at, entry) in enumerate(facts.seen.journal.entries):
        holdings.take(place, entry)
        if isinstance(entry, Fetched):
            fetched[entry.life] = entry
        elif isinstance(entry, Answered) and entry.answer is not None and not entry.answer.warnings:
            done = _commit_behind(facts, entry, place)
            shown[entry.life] = max(shown.get(entry.life, 0), done)
        elif isinstance(entry, Bound) and not entry.again and not entry.by_token and not entry.reason:
            seen = loaded.setdefault(entry.life, {})
            seen |= {card.content: True for _, card in cards.cards_for_the_model(entry.variants)}
            flags = _flags(fetched.get(entry.life), at)
            first = max(shown.get(entry.life, 0), facts.number_of(entry.shows) if entry.shows >= 0 else 0)
            last = facts.number_at(place)
            views: list[Mapping[str, Slot]] = [each.slots for each in facts.states[first : last + 1]]
            if entry.shows < 0:  # it has not read anything yet
                views = [{}, *views]
            at_hand = None if entry.turn.startswith("last") else seen
            number = _fitting(entry, views, flags, (holdings, first, at_hand))
            if number is None:
                problems.append(_unfit(entry, at, views, flags, holdings))
            if entry.shows >= 0:
                shown[entry.life] = first + (number or 0)
                state, held = shown[entry.life], holdings.any_of(entry.life)
                judged.append(Judged(place, at, entry, state, flags, held, frozenset(seen)))
    return judged, problems


def _fitting(
    bound: Bound,
    views: list[Mapping[str, Slot]],
    flags: Mapping[str, str] | None,
    around: tuple[Holdings, int, Mapping[str, bool] | None],
) -> int | None:
    """Return the first view under which the bind is as it should be."""
    holdings, first, at_hand = around
    deprecated = cards.deprecated_in(bound.variants)
    for number, slots in enumerate(views):
        for killed, down in holdings.possible(bound.life, first + number):
            moment = Moment(lambda name: UNKNOWN if flags is None else flags.get(name, OFF), killed, down, deprecated)
            if _fits(bound, slots, moment, at_hand):
                return number
    return None


def _fits(bound: Bound, slots: Mapping[str, Slot], moment: Moment, at_hand: Mapping[str, bool] | None) -> bool:
    served = dict(bound.serves)
    for name in cards.SLOTS:
        listed = name in slots and (name, cards.UNLISTED) not in bound.variants
        wanted = who_serves(slots[name], bound.user, bound.arm, moment) if listed else None
        if served.get(name) == wanted:
            continue
        missing = name not in served and at_hand is not None and wanted not in at_hand
        if not missing:  # a definition of an earlier configuration may not have been read again yet: absent is safe
            return False
    return True


def _flags(fetched: Fetched | None, at: float) -> Mapping[str, str] | None:
    """Return the flags as a sidecar has to take them; None: nobody can say."""
    if fetched is None or at >= fetched.begun + STALE_AFTER:
        return None
    return dict.fromkeys(fetched.on, ON)


def _commit_behind(facts: RolloutFacts, told: Answered, place: int) -> int:
    """Return the number of the state that an answer promises to be shown here."""
    if told.wish.dry_run or told.answer is None or told.answer.edits:
        return 0
    if "replica" in told.answer.reached:
        return 0  # what was stopped is held here, shown or not; nothing else is promised of the record
    found = [each.place for each in facts.steps if each.wish == told.wish and each.changes and each.place < place]
    return facts.number_at(max(found)) if found else 0


def _unfit(
    bound: Bound, at: float, views: list[Mapping[str, Slot]], flags: Mapping[str, str] | None, holdings: Holdings
) -> str:
    held = next(iter(holdings.possible(bound.life, 10**6)), (frozenset(), frozenset()))
    moment = Moment(lambda name: UNKNOWN if flags is None else flags.get(name, OFF), *held)
    first = views[0]
    wanted = {name: who_serves(slot, bound.user, bound.arm, moment) for name, slot in first.items()}
    on = None if flags is None else sorted(flags)
    return (
        f"at {at:.3f} {bound.life} {bound.turn} of {bound.user!r} {bound.arm}: served {dict(bound.serves)}, "
        f"e.g. {wanted} would be right; shows {bound.shows}, {len(views)} states fit it; flags {on}, held {held}"
    )


def _left(facts: RolloutFacts, each: Judged, name: str, ramp: int) -> str:
    """Say why a bind contradicts that a user had a definition at a ramp; empty: it does not."""
    slots = facts.states[each.state].slots
    slot = slots.get(cards.SLOT_OF[name])
    it = slot.of(slot.active) if slot is not None else None
    if slot is None or it is None or it.name != name or it.ramp < ramp or it.killed or _off(it, each.flags):
        return ""
    if slot.experiment and each.bound.arm == CONTROL:
        return ""  # it has become an experiment since
    if (slot.name, cards.UNLISTED) in each.bound.variants:
        return ""
    held = cards.deprecated_in(each.bound.variants)
    if it.content in held or dict(each.bound.serves).get(slot.name) == it.content:
        return ""
    if it.content in each.held or it.content not in each.at_hand:
        return ""
    return f"at {each.at:.3f} it is active at {it.ramp} and they have {dict(each.bound.serves).get(slot.name)}"


def _off(it: Definition, flags: Mapping[str, str] | None) -> bool:
    if it.flag is None or it.flags == "retired":
        return False
    return flags is None or it.flag not in flags or f"{it.flag}_cohort" not in flags
