"""Run one seed again and show what happened: `python -m tests.simulation.replay --suite turns --seed 123`."""

import argparse
import sys

from tests.simulation.running import say
from tests.support.simulation.generating import SUITES, schedule_of
from tests.support.simulation.invariants import violations
from tests.support.simulation.world import run_schedule


def main() -> int:
    """Show the schedule, each step, the digest of them all, and the broken promises."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description=__doc__)
    parser.add_argument("--suite", choices=[*SUITES], required=True)
    parser.add_argument("--seed", type=int, nargs="+", required=True)
    parser.add_argument("--digest", action="store_true", help="the digest only")
    chosen = parser.parse_args()
    broken = 0
    for seed in chosen.seed:
        seen = run_schedule(schedule_of(chosen.suite, seed), readable=not chosen.digest)
        if chosen.digest:
            say(seen.trace.digest())
            continue
        say(*_plan(chosen.suite, seed), *(seen.trace.lines or []))
        found = violations(seen)
        broken += len(found)
        say(*(f"BROKEN {promise}: {problem}" for promise, problem in found))
        say(f"{seen.loop.steps} steps, digest {seen.trace.digest()}, {len(found)} broken promises")
    return 1 if broken else 0


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


if __name__ == "__main__":
    sys.exit(main())
