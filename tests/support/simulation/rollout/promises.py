"""Every promise that a run of the suite `rollout` is held to, by name."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tests.support.simulation.rollout import checks_answers as answers
from tests.support.simulation.rollout import checks_audit as audit
from tests.support.simulation.rollout import checks_binds as binds
from tests.support.simulation.rollout import checks_leaving as leaving
from tests.support.simulation.rollout import checks_moves as moves
from tests.support.simulation.rollout import checks_stops as stops
from tests.support.simulation.rollout.facts import RolloutFacts, rollout_facts_of
from tests.support.simulation.rollout.world import RolloutSeen


def no_rollout_crashes(facts: RolloutFacts) -> Iterator[str]:
    """No deadlock, no stray exception, nothing that is no refusal."""
    if facts.seen.crash:
        yield facts.seen.crash
    yield from facts.seen.strays


_ALL: Final = (
    no_rollout_crashes,
    moves.every_step_follows_the_rules,
    moves.refusals_have_reasons,
    moves.nobody_overwrites_anybody,
    moves.no_step_without_its_gates,
    moves.flags_go_only_while_they_are_on,
    moves.in_test_only_what_has_a_flag_is_killed,
    moves.no_configuration_ends_a_pause,
    moves.policies_are_heeded,
    moves.lifecycles_move_for_a_reason,
    moves.every_step_is_audited,
    answers.every_answer_is_on_record,
    answers.nothing_is_done_twice,
    answers.everybody_is_told_the_same,
    answers.refusals_are_true,
    binds.everybody_is_served_by_the_rules,
    binds.no_user_leaves_as_the_ramp_rises,
    binds.turns_keep_what_they_were_bound_to,
    binds.all_is_shown_in_the_end,
    stops.flags_that_fall_kill,
    stops.flags_that_fell_unseen_kill,
    stops.kills_reach_the_record,
    leaving.nothing_is_taken_away_in_use,
    leaving.decommissions_are_audited,
    leaving.what_is_undone_is_as_it_was,
    leaving.nobody_is_bound_to_what_leaves,
    leaving.configurations_move_nobody,
    leaving.what_is_overdue_is_said,
    audit.each_transition_is_one_row,
    audit.transitions_take_effect_once,
    audit.every_row_is_exported,
)
ROLLOUT_INVARIANTS: Final[Mapping[str, Callable[[RolloutFacts], Iterator[str]]]] = MappingProxyType(
    {check.__name__: check for check in _ALL}
)


def rollout_violations(seen: RolloutSeen) -> list[tuple[str, str]]:
    """Return (promise, how it was broken) for each broken promise of a run."""
    facts = rollout_facts_of(seen)
    return [(name, problem) for name, check in ROLLOUT_INVARIANTS.items() for problem in check(facts)]
