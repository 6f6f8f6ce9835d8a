"""Every promise that a run is held to, by name."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tests.support.simulation import checks_calls as calls
from tests.support.simulation import checks_data as data
from tests.support.simulation import checks_isolation as isolation
from tests.support.simulation import checks_records as records
from tests.support.simulation import checks_streams as streams
from tests.support.simulation.facts import Facts, facts_of
from tests.support.simulation.world import Seen

DEFECTS: Final = ("child_defect", "call_defect")


def nothing_crashes(facts: Facts) -> Iterator[str]:
    """No deadlock, no error outside our tree, no stray exception, no anomaly that stands for a defect."""
    seen = facts.seen
    if seen.crash:
        yield seen.crash
    yield from seen.spawner.strays
    for kind, detail, *_ in seen.recorder.of("anomaly"):
        if kind in DEFECTS:
            yield f"{kind}: {detail}"


def nothing_is_left(facts: Facts) -> Iterator[str]:
    """In the end no task, grant, lane or place is taken any more."""
    seen = facts.seen
    yield from seen.left_over
    if seen.grants_alive or seen.dispatches_running:
        yield f"{seen.grants_alive} grants alive, {seen.dispatches_running} dispatches counted as running"
    for turn_id, turn in seen.watched.turns.items():
        if turn is not None and turn.queues.occupied:
            yield f"{turn_id}: {turn.queues.occupied} calls are in slot queues"


def the_wire_tells_what_was_done(facts: Facts) -> Iterator[str]:
    """Every answer arrives as the operation gave it, at the request that asked; no call and no lane stays open."""
    yield from facts.seen.wire_problems


_ALL: Final = (
    nothing_crashes,
    nothing_is_left,
    the_wire_tells_what_was_done,
    calls.every_call_has_one_outcome,
    calls.emission_indexes_are_unique,
    calls.refused_and_dropped_never_run,
    calls.dropped_is_the_surplus,
    calls.the_cap_holds,
    calls.owners_take_turns,
    calls.outcomes_come_in_time,
    calls.same_id_same_request,
    isolation.outcomes_are_their_own,
    isolation.calls_are_given_their_own,
    isolation.stops_take_effect,
    isolation.attempts_are_bounded,
    isolation.each_answer_is_its_own_attempts,
    records.contracts_come_first,
    records.child_logs_are_legal,
    records.one_routing_record_per_turn,
    records.what_is_told_is_durable,
    records.turns_end_after_their_calls,
    records.idle_turns_have_their_time,
    records.verdicts_decide,
    streams.frames_are_well_formed,
    streams.streams_have_no_holes,
    streams.listeners_see_the_same,
    streams.calls_run_and_settle_in_streams,
    streams.progress_follows_the_policy,
    data.data_is_released_or_withheld,
    data.data_calls_end_at_their_limit,
    data.the_principal_is_the_users,
    data.nobody_sees_somebody_elses_data,
    data.incidents_are_told,
)
INVARIANTS: Final[Mapping[str, Callable[[Facts], Iterator[str]]]] = MappingProxyType(
    {check.__name__: check for check in _ALL}
)


def violations(seen: Seen) -> list[tuple[str, str]]:
    """Return (promise, how it was broken) for each broken promise of a run."""
    facts = facts_of(seen)
    return [(name, problem) for name, check in INVARIANTS.items() for problem in check(facts)]
