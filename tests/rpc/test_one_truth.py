"""Every view of a rollout says the same of it: ramp, flags, and since when something is in effect."""

import json
import re
from typing import Any

import pytest

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.views import HistoryOptions, show_history, show_list, show_slot
from subagents.lifecycle.v1 import flags_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operator_desk import INSIDE, Desk, wish
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requirement import requirement


async def everybody(bench: OperatedSidecar) -> None:
    """Bring the definition to everybody."""
    await bench.promoted(500)
    await bench.step("SetRamp", ramp_basis_points=10_000)


@requirement("PF1-D-32")
@pytest.mark.parametrize("method", ["Kill", "RollBack"])
async def test_what_is_in_rollback_has_no_ramp_anywhere_but_in_the_audit(method: str) -> None:
    """It was at 100 %: the answer, `Get`, `Explain` now and at that time, and the transition's snapshot of before."""
    async with an_operated_sidecar() as bench:
        await everybody(bench)
        answer = await bench.step(method)
        (one,) = (await bench.status()).definitions
        verdicts = []
        for at in (None, bench.clock.now()):
            request = pb.ExplainServingRequest(slot="shop", principal=INSIDE)
            if at is not None:
                request.at.FromDatetime(at)
            said = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
            verdicts += [each.ramp_basis_points for each in said.verdicts]
        moved = [row.transition for row in await bench.audit() if row.HasField("transition")][-1]

    assert (answer.ramp_basis_points, one.ramp_basis_points, verdicts) == (0, 0, [0, 0])
    assert (moved.target_state, moved.cohort.ramp_step_percent) == (pb.LIFECYCLE_STATE_ROLLBACK, 100)


@requirement("PF1-D-47")
@pytest.mark.parametrize(
    ("ramps", "down", "percent"), [((), False, 0), ((500,), False, 5), ((500, 2550), False, 25.5), ((500,), True, 0)]
)
async def test_the_ramp_in_an_event_is_that_of_the_moment_and_triggers_nothing(
    ramps: tuple[int, ...], down: bool, percent: float
) -> None:
    """Never raised, raised once or twice, ramped down: no ramp is a transition; the rollback says what it found."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        for ramp in ramps:
            await bench.step("SetRamp", ramp_basis_points=ramp)
        if down:
            await bench.step("RampDown", breach_id="floor-7")
        await bench.step("RollBack")
        moved = [row.transition for row in await bench.audit() if row.HasField("transition")]

    assert [each.target_state for each in moved] == [
        pb.LIFECYCLE_STATE_TEST,
        pb.LIFECYCLE_STATE_PROMOTE,
        pb.LIFECYCLE_STATE_ROLLBACK,
    ]
    assert [each.cohort.ramp_step_percent for each in moved] == [0, 0, percent]
    assert moved[-1].trigger == pb.TRIGGER_OPERATOR


@pytest.mark.parametrize(("command", "word"), [(kill, "killed"), (verbs.roll_back, "rolled back")])
async def test_the_commands_show_no_ramp_of_what_is_in_rollback(command: Any, word: str) -> None:
    """The step's own line, `list`, `show`, and both as objects."""
    async with an_operated_sidecar() as bench:
        await everybody(bench)
        desk = Desk(bench)
        _, done, _ = await desk.say(command, wish())
        _, listed, _ = await desk.say(show_list)
        _, shown, _ = await desk.say(show_slot, "shop")
        _, told = await desk.object(show_list)

    (row,) = [re.split(r"  +", line) for line in listed.splitlines() if line.startswith("shop ")]
    assert row[:3] == ["shop", "shop", word]
    assert f"done: {word} (" in done
    assert "shop" in shown
    assert "ramp" not in done + shown.replace("ramp curve", "")
    assert told["definitions"][0].get("ramp_basis_points", 0) == 0


async def pairs(bench: OperatedSidecar) -> tuple[int, int, list[int]]:
    """Return what `Get` and `GetFlags` say of the pair, and the two flags beside it."""
    (one,) = (await bench.status()).definitions
    request = flags_pb2.GetFlagsRequest(slot="shop")
    (other,) = (await bench.lifecycle.GetFlags(request, timeout=10, metadata=bench.role())).definitions
    return one.flag_pair, other.flag_pair, [each.value for each in one.flags]


async def test_the_pair_contradicts_none_of_its_flags() -> None:
    """Switched on and on; in a pause, switched on and one of them off; killed, withdrawn and off."""
    on, off = pb.FLAG_VALUE_ON, pb.FLAG_VALUE_OFF
    switched, withdrawn = pb.FLAG_PAIR_SWITCHED_ON, pb.FLAG_PAIR_WITHDRAWN
    async with an_operated_sidecar() as bench:
        await everybody(bench)
        serving = await pairs(bench)
        await bench.step("SwitchCohortFlagOff")
        paused = await pairs(bench)
        await bench.step("Kill")
        await bench.rollout.release_flags.look()
        killed = await pairs(bench)
        _, told = await Desk(bench).object(show_list)

    assert serving == (switched, switched, [on, on])
    assert paused == (switched, switched, [on, off])
    assert killed == (withdrawn, withdrawn, [off, off])
    assert told["definitions"][0]["flag_pair"] == "withdrawn"


@requirement("PF1-D-48")
async def test_waiting_and_history_do_not_contradict_each_other_about_what_is_in_effect() -> None:
    """A kill that every replica shows is in effect; that no turn was bound since, and when one was, is said as that."""
    async with an_operated_sidecar() as bench:
        await everybody(bench)
        desk = Desk(bench)
        _, waited, _ = await desk.say(kill, wish(wait=True))
        _, before, _ = await desk.say(show_history, HistoryOptions("shop"))
        await bench.offers(INSIDE)
        await bench.rollout.stops.effective.look()
        _, after, _ = await desk.say(show_history, HistoryOptions("shop"))
        _, rows, _ = await desk.say(show_history, HistoryOptions("shop"), as_json=True)

    assert "\nin effect: every living replica" in waited
    assert "promoted -> killed  (kill_switch; no turn yet)" in before
    assert "promoted -> killed  (kill_switch; first turn after 0 ms)" in after
    assert "in effect" not in before + after
    moved = [json.loads(row)["transition"] for row in rows.splitlines() if "transition" in json.loads(row)]
    assert "effective_at" in moved[-1]
