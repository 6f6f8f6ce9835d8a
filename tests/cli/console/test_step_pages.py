"""Forms of steps in the console that need more than a definition and a reason."""

import re
from datetime import UTC, datetime
from typing import Final

from sidecar.policy.lifecycle import Verdict
from subagents.lifecycle.v1 import reading_pb2
from tests.cli.console.test_pages import ALERT, path_of, words
from tests.support import decommissions
from tests.support.console_visits import a_console
from tests.support.operators import an_operated_sidecar

FOR: Final = re.compile(r'<label for="([a-z]+)">')


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


async def test_a_definition_is_decommissioned_step_by_step_from_the_board() -> None:
    """Progress and what remains are on the page; steps that a sidecar cannot verify need what the operator checked."""
    async with an_operated_sidecar(decommissions.shop(), decommissions.rewards()) as bench, a_console(bench) as visitor:
        await decommissions.rolled_back(bench)
        await visitor.sign_in(bench.token())
        unconfirmed = await visitor.take(await path_of(bench, "begin-decommission"), reason="shop2 is proven")
        begun = await visitor.take(await path_of(bench, "begin-decommission"), reason="shop2 is proven", confirmed="1")
        beside, slot = words((await visitor.get("/board")).text), words((await visitor.get("/board/shop")).text)
        early = await visitor.take(await path_of(bench, "complete-cleanup"), reason="merged")
        undone = await visitor.take(await path_of(bench, "undo-decommission"), reason="too early", confirmed="1")
        after_undo = words((await visitor.get("/board/shop")).text)
        await visitor.take(await path_of(bench, "begin-decommission"), reason="now", confirmed="1")
        await decommissions.loaded(bench, decommissions.configuration(decommissions.rewards(), tools="find pay"))
        path = await path_of(bench, "complete-cleanup")
        for _ in ("entry", "references"):
            await visitor.take(path, reason="merged")
        asks = FOR.findall((await visitor.get(path)).text)
        silent = await visitor.take(path, reason="merged", code="gone")
        modules = {"reason": "merged", "code": "gone", "checked": "commit 1f3a"}
        final = await visitor.take(path, **modules)
        for fields in (modules | {"confirmed": "1"}, {"reason": "merged"}):
            await visitor.take(path, **fields)
        decide = await path_of(bench, "decide-cleanup")
        asked = FOR.findall((await visitor.get(decide)).text)
        undecided = await visitor.take(decide, reason="no team needs them")
        for matter in ("evals", "tools"):
            await visitor.take(decide, matter=matter, choice="retain", reason="others use them")
        ended = await visitor.take(path, reason="merged", checked="commit 1f3a")
        (finished,) = await decommissions.listed(bench, finished=True)

    assert [ALERT.findall(each.text) for each in (unconfirmed, silent, final, undecided)] == [
        ["Confirm what the step does."],
        ["Say what you checked: a sidecar cannot verify step 3 (modules)."],
        ["Confirm what the step does."],
        ["Choose evals or tools, and whether they are retained or removed."],
    ]
    assert (asks, asked) == (["code", "checked", "reason"], ["matter", "choice", "reason"])
    assert "done:" in words(begun.text)
    assert "decommission of shop: due" in beside
    assert "step 1 (entry) is next; undecided: evals, tools" in beside
    assert "remaining: the entry of shop is still in agent_config.yaml" in slot
    assert "Undo decommission" in slot
    assert "step 1 (entry) of shop has to wait: the entry of shop is there" in ALERT.findall(early.text)[0]
    assert "done:" in words(undone.text)
    assert ("Undo decommission" in after_undo, "Begin decommission" in after_undo) == (False, True)
    assert "next: nothing; the decommission has ended" in words(ended.text)
    assert finished.decommission.HasField("finished_at")


async def test_each_flag_is_switched_by_hand_where_that_makes_sense() -> None:
    """A cohort flag pauses, also a definition that serves only as a target; a kill flag kills, after a confirmation."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=2500)
        await visitor.sign_in(bench.token())
        offered = words((await visitor.get("/board/shop")).text)
        path = await path_of(bench, "kill-flag-off")
        form = words((await visitor.get(path)).text)
        checked = words((await visitor.take(path, reason="leaks", do="check")).text)
        unconfirmed = await visitor.take(path, reason="leaks")
        unread = await visitor.take(await path_of(bench, "cohort-flag-off"), reason="too early")
        paused = (await bench.status()).definitions[-1].flags[1].value
        again = await visitor.take(await path_of(bench, "cohort-flag-on"), reason="settled")
        serves = (await bench.status()).definitions[-1].flags[1].value
        killed = words((await visitor.take(path, reason="leaks", confirmed="1")).text)
        flag = (await bench.status()).definitions[-1].flags[0].value
        refused = await visitor.take(await path_of(bench, "kill-flag-on"), reason="a mistake")

    assert ["Kill flag off" in offered, "Kill flag on" in offered, "Cohort flag off" in offered] == [True, False, False]
    assert "shop and every other definition with this kill flag will be removed from every surface" in form
    assert "dry run, nothing was written" in checked
    assert "it serves no user, and switching the flag off kills it permanently" in checked
    assert ALERT.findall(unconfirmed.text) == ["Confirm what the step does."]
    assert "on -> off" in words(unread.text)
    assert (paused, serves) == (reading_pb2.FLAG_VALUE_OFF, reading_pb2.FLAG_VALUE_ON)
    assert "off -> on" in words(again.text)
    assert "kill flag ai_assistant_subagent_shop of memory: on -> off" in killed
    assert flag == reading_pb2.FLAG_VALUE_OFF
    assert (
        "the kill flag ai_assistant_subagent_shop was switched off, which kills shop" in ALERT.findall(refused.text)[0]
    )
