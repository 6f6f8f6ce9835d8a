"""Every promise that a run of the suite `record` is held to, by name."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from sidecar.core.journal.encoding import UnreadableFact
from tests.support.simulation.record import checks_effects as effects
from tests.support.simulation.record import checks_owning as owning
from tests.support.simulation.record import checks_telling as telling
from tests.support.simulation.record import checks_writing as writing
from tests.support.simulation.record.facts import RecordFacts

_ALL: Final = (
    owning.nothing_crashes,
    owning.nothing_is_left,
    owning.every_child_closes_once,
    owning.every_call_settles_once,
    owning.turns_end_once,
    owning.attempts_are_bounded,
    owning.contracts_come_first,
    owning.answers_are_somebodys,
    owning.data_dies_with_its_sidecar,
    effects.no_effect_happens_twice,
    effects.keys_come_first,
    effects.repeated_calls_keep_their_key,
    owning.takeovers_have_reasons,
    owning.nobody_closes_for_the_living,
    owning.closed_for_lost_only_when_due,
    owning.the_dead_and_the_robbed_are_refused,
    owning.statuses_have_verdicts,
    telling.every_client_finishes,
    telling.a_dispatch_ends_before_its_turn,
    telling.what_is_told_is_on_record,
    telling.everybody_is_told_the_same,
    telling.cancels_are_on_record,
    telling.snapshots_are_on_record,
    telling.ends_are_on_record,
    telling.streams_declare_their_gaps,
    telling.sequences_are_of_one_owner,
    writing.nothing_acknowledged_is_lost,
    writing.the_record_only_grows,
    writing.appends_keep_their_order,
    writing.what_is_refused_is_not_kept,
    writing.refusals_have_reasons,
    writing.chains_verify,
    writing.roots_verify,
)
RECORD_INVARIANTS: Final[Mapping[str, Callable[[RecordFacts], Iterator[str]]]] = MappingProxyType(
    {check.__name__: check for check in _ALL}
)
READABLE: Final = "every_fact_fits_the_facts_before_it"


def record_violations(facts: RecordFacts) -> list[tuple[str, str]]:
    """Return (promise, how it was broken) for each broken promise of a run."""
    try:
        return [(name, problem) for name, check in RECORD_INVARIANTS.items() for problem in check(facts)]
    except UnreadableFact as why:  # a fact is on record that the rules refuse: no other promise can be checked
        return [(READABLE, str(why))]
