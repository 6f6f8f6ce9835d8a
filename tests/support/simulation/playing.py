"""Plays one seed of any suite, and says what was broken."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from sidecar.adapters.virtual_time import Trace
from tests.support.simulation.generating import SUITES, schedule_of
from tests.support.simulation.invariants import violations
from tests.support.simulation.record.checks_asking import answers, question_violations
from tests.support.simulation.record.checks_owning import takeovers
from tests.support.simulation.record.facts import record_facts_of
from tests.support.simulation.record.generating import SUITE as RECORD
from tests.support.simulation.record.generating import record_schedule
from tests.support.simulation.record.promises import record_violations
from tests.support.simulation.record.questions import SUITE as QUESTIONS
from tests.support.simulation.record.questions import questions_schedule
from tests.support.simulation.record.schedule import RecordSchedule
from tests.support.simulation.record.world import run_record_schedule
from tests.support.simulation.rollout.generating import SUITE as ROLLOUT
from tests.support.simulation.rollout.generating import rollout_schedule
from tests.support.simulation.rollout.promises import rollout_violations
from tests.support.simulation.rollout.world import run_rollout_schedule
from tests.support.simulation.world import run_schedule

ALL_SUITES: Final = (*SUITES, RECORD, QUESTIONS, ROLLOUT)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one seed. `broken`: promise, and how."""

    trace: Trace
    steps: int
    counted: Counter[str]
    broken: list[tuple[str, str]]


def play(suite: str, seed: int, *, readable: bool = False) -> Played:
    """Let the schedule of a seed happen and judge it."""
    if suite == ROLLOUT:
        rolled_out = run_rollout_schedule(rollout_schedule(seed), readable=readable)
        played = Played(rolled_out.trace, rolled_out.loop.steps, rolled_out.counted, rollout_violations(rolled_out))
        rolled_out.loop.bury()
        return played
    if suite not in {RECORD, QUESTIONS}:
        seen = run_schedule(schedule_of(suite, seed), readable=readable)
        return Played(seen.trace, seen.loop.steps, seen.counted, violations(seen))
    schedule = questions_schedule(seed) if suite == QUESTIONS else record_schedule(seed)
    on_record = run_record_schedule(schedule, readable=readable)
    facts = record_facts_of(on_record)
    counted = on_record.counted + takeovers(facts) + answers(facts)
    broken = [*record_violations(facts), *question_violations(facts)]
    played = Played(on_record.trace, on_record.loop.steps, counted, broken)
    on_record.loop.bury()
    return played


def plan_of(suite: str, seed: int) -> list[str]:
    """Return the schedule of a seed, to be read."""
    if suite == ROLLOUT:
        return _rollout_plan(seed)
    if suite in {RECORD, QUESTIONS}:
        return _record_plan(questions_schedule(seed) if suite == QUESTIONS else record_schedule(seed))
    return _plan(suite, seed)


def _plan(suite: str, seed: int) -> list[str]:
    schedule = schedule_of(suite, seed)
    lines = [f"{schedule.name}: {schedule.tuning}, store {schedule.store_faults}"]
    for turn in schedule.turns:
        lines.append(f"  {turn.turn_id} of {turn.principal} at {turn.bind_at:.3f}, ends {turn.ending}")
        for dispatch in turn.dispatches:
            lines.append(f"    {dispatch.dispatch_id} {dispatch.on_disconnect}, left {dispatch.time_left}")
            lines += [f"      {call.key} {call.kind} {call.tool_name[:40]}" for call in dispatch.calls]
            lines += [f"      {action}" for action in dispatch.actions]
    return lines


def _record_plan(schedule: RecordSchedule) -> list[str]:
    lines = [f"{schedule.name}: two sidecars {schedule.shared}, store {schedule.faults}"]
    lines += [f"  {mishap}" for mishap in schedule.mishaps]
    for turn in schedule.turns:
        lines.append(f"  {turn.turn_id} at sidecar {turn.place} from {turn.bind_at:.3f}, {turn.close}")
        for dispatch in turn.dispatches:
            lines.append(f"    {dispatch.dispatch_id} {dispatch.on_disconnect}, leaves after {dispatch.leaves}")
            lines += [f"      {call.key} {call.kind} {call.tool_name[:40]} {call.answers}" for call in dispatch.calls]
    return lines


def _rollout_plan(seed: int) -> list[str]:
    schedule = rollout_schedule(seed)
    lines = [f"{schedule.name}: flags embedded {schedule.embedded}, read-only {schedule.read_only}, {schedule.faults}"]
    for slot in schedule.slots:
        lines.append(f"  {slot.name}: active {slot.active}, curve {slot.curve}, experiment {slot.experiment}")
        lines += [f"    {each}" for each in slot.definitions]
    planned = (schedule.catalogues, schedule.outages, schedule.mishaps, schedule.flips, schedule.jumps)
    lines += [f"  {each}" for some in planned for each in some]
    return [*lines, *(f"  {each}" for each in (*schedule.errands, *schedule.turns))]
