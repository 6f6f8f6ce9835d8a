"""`sidecar subagent rollback --to`: who serves instead of a dead target, as it is typed and answered."""

import asyncio

import pytest

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.client import CannotOperate
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.step_target import StepTarget
from sidecar.cli.subagent.verbs import successor
from sidecar.cli.subagent.views import HistoryOptions, show_history
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.rpc.test_rollback_to import three_in_a_row
from tests.rpc.test_rollout_targets import NEW, OLD, replaced, served
from tests.support.operator_desk import Answers, Desk, typed, wish
from tests.support.operators import an_operated_sidecar
from tests.support.requirement import requirement


@requirement("PF1-D-22")
async def test_a_dead_target_is_said_before_and_the_refusal_gives_the_command_that_helps() -> None:
    """The plan says that the recorded target is dead; refused, the next line names who can; taken, history has it."""
    async with three_in_a_row() as bench:
        desk = Desk(bench)
        await desk.say(kill, wish("shop2"))
        refused = await desk.say(verbs.roll_back, wish("shop3"))
        asked = Answers(yes=True)
        taken = await desk.say(verbs.roll_back, wish("shop3", yes=False), "shop", ask=asked)
        serving = await served(bench)
        _, history, _ = await desk.say(show_history, HistoryOptions("shop"))

    assert refused[0] == 1
    assert "shop3: rollback; its recorded target shop2 is rolled back: choose another with --to; " in refused[1]
    assert "next: name the successor: `sidecar subagent rollback shop3 --to shop|none --reason …`" in refused[2]
    assert (taken[0], asked.asked) == (0, ["shop3 will be rolled back permanently; shop serves again. Continue?"])
    assert serving == OLD.digest
    assert "activated  instead of the recorded target shop2 (sha256:" in history


async def test_none_empties_the_slot_and_programs_read_the_same() -> None:
    """Of the object nothing is different but the state; the next bind serves nobody."""
    async with three_in_a_row() as bench:
        desk = Desk(bench)
        dry = await desk.say(verbs.roll_back, wish("shop3", dry_run=True), "none")
        before = await served(bench)
        code, said = await desk.object(verbs.roll_back, wish("shop3"), "none")
        after = await served(bench)

    assert (dry[0], before, code, after) == (0, NEW.digest, 0, None)
    assert "shop3: rollback; the slot stays empty until a definition is activated; needs no gate" in dry[1]
    assert (said["steps"][0]["state"], said["steps"][0].get("active", False)) == ("rollback", False)


async def test_a_name_that_fits_nobody_is_told_before_anything_is_asked() -> None:
    """Exit code 2, what the slot has, and nothing moved."""
    async with three_in_a_row() as bench:
        desk = Desk(bench)
        code, _, errors = await desk.say(verbs.roll_back, wish("shop3"), "shop9")
        serving = await served(bench)

    assert (code, serving) == (2, NEW.digest)
    assert f"shop has no definition shop9: shop {OLD.digest}, shop2 " in errors
    assert "next: give --to one of these digests, or --to none" in errors


def status(digest: str, *, active_before: bool = True) -> pb.DefinitionStatus:
    """Return one of several contents of the id `shop`, in `promote`."""
    one = pb.DefinitionStatus(digest=digest, definition_id="shop", state=pb.LIFECYCLE_STATE_PROMOTE)
    if active_before:
        one.activated_at.GetCurrentTime()
    return one


def test_of_several_contents_of_one_id_the_digest_has_to_say_which_unless_one_alone_can_serve() -> None:
    """After major changes under one id: two that were active before, and one that never was."""
    replacement = pb.DefinitionStatus(digest="sha256:new", definition_id="shop2", active=True)
    never, first, second = status("sha256:a", active_before=False), status("sha256:b"), status("sha256:c")
    two = StepTarget(pb.SlotStatus(slot="shop", definitions=[never, first, second, replacement]), replacement)
    one = StepTarget(pb.SlotStatus(slot="shop", definitions=[never, first, replacement]), replacement)

    with pytest.raises(CannotOperate, match="shop has several definitions shop: shop sha256:b, shop sha256:c"):
        successor(two, "shop")
    assert successor(one, "shop")[1] == {"target_digest": "sha256:b"}
    assert successor(two, "sha256:c")[1] == {"target_digest": "sha256:c"}
    assert successor(two, "sha256:a")[1] == {"target_digest": "sha256:a"}  # the sidecar says why not


async def test_it_is_typed_as_an_option_with_an_id_or_a_digest() -> None:
    """The digest is the one that `show` prints."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench, OLD, NEW)
        token = bench.token()
        at = ("--target", Desk(bench).target, "--reason", "enough", "--yes")
        code, out = await asyncio.to_thread(typed, "rollback", "shop3", "--to", OLD.digest, *at, token=token)
        serving = await served(bench)

    assert (code, serving) == (0, OLD.digest)
    assert "shop serves again" in out
