"""Forms of steps in the console that need more than a definition and a reason."""

from datetime import UTC, datetime

from sidecar.policy.lifecycle import Verdict
from subagents.lifecycle.v1 import reading_pb2
from tests.cli.console.test_pages import ALERT, path_of, words
from tests.support.console_visits import a_console
from tests.support.operators import an_operated_sidecar


async def test_a_gate_is_overridden_and_a_ramp_taken_down_and_flags_retired_from_the_board() -> None:
    """Each form asks for what the command line asks for, shows its plan, and is offered where it makes sense only."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        bench.clock.time = datetime.now(UTC)
        await bench.promoted(ramp=2500)
        await visitor.sign_in(bench.token())
        before = words((await visitor.get("/board/shop")).text)
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        failed = await visitor.take(await path_of(bench, "ramp"), percent="50", reason="more")
        offered = words((await visitor.get("/board/shop")).text)
        permission = {"gate": "pre_ramp", "percent": "50", "until": "1h", "reason": "a flaky check"}
        unknown = await visitor.take(await path_of(bench, "override"), **permission | {"gate": "pre_full"})
        checked = words((await visitor.take(await path_of(bench, "override"), **permission, do="check")).text)
        await visitor.take(await path_of(bench, "override"), **permission)
        raised = await visitor.take(await path_of(bench, "ramp"), percent="50", reason="more")
        await bench.step("SetRamp", ramp_basis_points=10_000)
        unconfirmed = await visitor.take(await path_of(bench, "retire-flags"), reason="proven")
        retired = words((await visitor.take(await path_of(bench, "retire-flags"), reason="proven", confirmed="1")).text)
        nameless = await visitor.take(await path_of(bench, "ramp-down"), reason="it hurts")
        down = await visitor.take(await path_of(bench, "ramp-down"), reason="it hurts", breach="b-1")
        (definition,) = (await bench.status()).definitions

    assert ["Override a gate" in page for page in (before, offered)] == [False, True]
    assert "GATE_FAILED" in failed.text
    assert ALERT.findall(unknown.text) == ["Choose a gate whose last answer was a fail."]
    assert "Plan: override one fail of pre_ramp for the step from 25 % to 50 %, until" in checked
    assert "live 50 %" in words(raised.text)
    assert ALERT.findall(unconfirmed.text) == ["Confirm what the step does."]
    assert "it does nothing any more" in retired
    assert ALERT.findall(nameless.text) == ["Give the id of the breach, as the monitoring system reports it."]
    assert "0 %" in words(down.text)
    assert (definition.ramp_basis_points, definition.breach.breach_id) == (0, "b-1")


async def test_mode_and_ramp_curve_of_a_slot_are_declared_from_the_board() -> None:
    """One of them may be left as it is; a curve that cannot be read is said."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=2500)
        await visitor.sign_in(bench.token())
        path = await path_of(bench, "configure")
        nothing = await visitor.take(path, reason="plan")
        wrong = await visitor.take(path, curve="5,many", reason="plan")
        await visitor.take(path, curve="25,50,100", reason="plan")
        curve = list((await bench.status()).curve_basis_points)
        await visitor.take(path, mode="full", reason="plan")
        after = await bench.status()

    assert ALERT.findall(nothing.text) == ["Give a mode, a ramp curve, or both."]
    assert "is not a percentage" in ALERT.findall(wrong.text)[0]
    assert (curve, list(after.curve_basis_points)) == ([2500, 5000, 10_000], [2500, 5000, 10_000])
    assert after.mode == reading_pb2.ROLLOUT_MODE_FULL
