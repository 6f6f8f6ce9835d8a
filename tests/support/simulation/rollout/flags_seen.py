"""What a sidecar may have known of the flags of a definition while it took a step."""

from tests.support.simulation.rollout.facts import RolloutFacts
from tests.support.simulation.rollout.flags import TIMING
from tests.support.simulation.rollout.holdups import Span
from tests.support.simulation.rollout.journal import Fetched
from tests.support.simulation.rollout.model_values import Definition

STALE_AFTER = TIMING.max_staleness.total_seconds()


def flags_may_be(facts: RolloutFacts, it: Definition | None, span: Span, *, on: bool) -> bool:
    """Say whether at some time in a span both flags were known to be on there; or, with `on=False`, were not."""
    if it is None or it.flag is None:
        return on
    entries = enumerate(facts.seen.journal.entries[: span.last + 1])
    mine = [(place, each) for place, (_, each) in entries if isinstance(each, Fetched) and each.life == span.life]
    known = [
        *[each for place, each in mine if place < span.first][-1:],
        *(each for place, each in mine if place >= span.first),
    ]
    began = facts.seen.journal.entries[span.first][0]
    both = [{it.flag, f"{it.flag}_cohort"} <= each.on and began < each.begun + STALE_AFTER for each in known]
    if on:
        return any(both)
    return not known or not all(both) or any(span.ended >= each.begun + STALE_AFTER for each in known)
