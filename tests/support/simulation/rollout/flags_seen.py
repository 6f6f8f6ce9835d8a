"""What a sidecar may have known of the flags of a definition while it took a step."""

from collections.abc import Iterator

from tests.support.simulation.rollout import wishes
from tests.support.simulation.rollout.facts import RolloutFacts
from tests.support.simulation.rollout.flags import TIMING
from tests.support.simulation.rollout.holdups import Span
from tests.support.simulation.rollout.journal import Fetched, Switched
from tests.support.simulation.rollout.model_values import Definition, Slot
from tests.support.simulation.rollout.wishes import Wish

STALE_AFTER = TIMING.max_staleness.total_seconds()


def may_keep_away(slot: Slot, wish: Wish) -> bool:
    """Say whether flags that are off are in the way of a wish: it would give back whom they keep away."""
    it = slot.meant(wish)
    if it is None or wish.kind != wishes.SET_RAMP:
        return wish.kind == wishes.RETIRE_FLAGS
    others = (each for each in slot.definitions if each.content != it.content and each.flag == it.flag)
    return it.flags != "on" and any(each.flags == "on" and each.state == "promote" for each in others)


def flags_may_be(facts: RolloutFacts, it: Definition | None, span: Span, *, on: bool) -> bool:
    """Say whether at some time in a span both flags were known to be on there; or, with `on=False`, were not."""
    if it is None or it.flag is None:
        return on
    known = _known(facts, span)
    began = facts.seen.journal.entries[span.first][0]
    states = list(_states(facts, it.flag, span))
    both = [{it.flag, f"{it.flag}_cohort"} <= each.on and began < each.begun + STALE_AFTER for each in known]
    if on:
        return any(both) or any(states)
    return (
        not known or not all(both) or not all(states) or any(span.ended >= each.begun + STALE_AFTER for each in known)
    )


def needs_its_flag(slot: Slot, wish: Wish) -> bool:
    """Say whether a wish is possible only if the kill flag of the definition exists (TN-55)."""
    it = slot.meant(wish)
    return wish.kind == wishes.KILL and it is not None and it.state == "test"


def flag_may_be_unseen(facts: RolloutFacts, it: Definition | None, span: Span) -> bool:
    """Say whether at some time in a span the kill flag was not known to exist there."""
    known = _known(facts, span)
    old = any(span.ended >= each.begun + STALE_AFTER for each in known)
    return it is None or not known or old or any(it.flag not in each.on | each.off for each in known)


def flag_existed(facts: RolloutFacts, it: Definition | None, last: int) -> bool:
    """Say whether somebody had created the kill flag before a place in the journal."""
    entries = (entry for _, entry in facts.seen.journal.entries[:last])
    return it is not None and any(isinstance(each, Switched) and each.name == it.flag for each in entries)


def _known(facts: RolloutFacts, span: Span) -> list[Fetched]:
    """Return what a sidecar heard of its flags last before a span, and in it."""
    entries = enumerate(facts.seen.journal.entries[: span.last + 1])
    mine = [(place, each) for place, (_, each) in entries if isinstance(each, Fetched) and each.life == span.life]
    return [
        *[each for place, each in mine if place < span.first][-1:],
        *(each for place, each in mine if place >= span.first),
    ]


def _states(facts: RolloutFacts, flag: str, span: Span) -> Iterator[bool]:
    """Yield whether both flags were on, from the begin of a span to its end, as whoever keeps them knows it."""
    now = {flag: False, f"{flag}_cohort": False}
    for place, (_, entry) in enumerate(facts.seen.journal.entries[: span.last + 1]):
        if place == span.first:
            yield all(now.values())
        if isinstance(entry, Switched) and entry.name in now:
            now[entry.name] = entry.on
            if place >= span.first:
                yield all(now.values())
