"""`sidecar status` and `sidecar drain`: what a person on call types first, at a sidecar's operator listener."""

import json
from dataclasses import replace

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.status import drain, show_status
from sidecar.cli.subagent.views import OperatorCommands
from tests.support.operator_desk import Answers, Desk, typed, wish
from tests.support.operators import an_operated_sidecar
from tests.support.requests import failure_of
from tests.support.requirement import requirement


@requirement("PF1-D-63")
async def test_one_screen_says_what_is_served_for_whom_and_since_which_step() -> None:
    """The last step that changed who is served is shown with operator and reason; a later one that did not is not."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish("shop"))
        await desk.say(verbs.ramp, wish("shop", reason="first users"), 500)
        await bench.offers("user-20")
        await desk.say(verbs.ramp_down, wish("shop", reason="too many errors"), "floor-7")
        await desk.say(verbs.acknowledge, wish("shop", reason="we look"), "floor-7")
        code, out, errors = await desk.say(show_status)

    lines = out.splitlines()
    assert (code, errors) == (0, "")
    assert lines[0].endswith(": accepts turns")
    assert lines[1] == "open turns: 1, calls in flight: 1, including this one"
    assert lines[2].startswith("replicas alive: ")
    assert lines[4].split() == ["slot", "active", "serves", "other", "users", "pinned"]
    assert lines[5].startswith("shop  shop@")
    assert "live 0 % of users (mode experiment)  not served" in lines[5]
    (since,) = [line for line in lines if line.startswith("last step")]
    assert "ramped_down  5 % -> 0 %" in since
    assert since.endswith("by ada@example (operator): too many errors")


async def test_what_needs_attention_is_named() -> None:
    """What the process says of itself, flags that are unreachable, and a breach that is not acknowledged."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        await desk.say(verbs.ramp_down, wish("shop"), "floor-7")
        bench.flags.away = True
        bench.readiness.attention = ("the record is slow: its last append took 1.2 s",)
        _, out, _ = await desk.say(show_status)

    attention = [line for line in out.splitlines() if line.startswith("attention: ")]
    assert any("has an open breach" in line for line in attention)
    assert any("unreachable" in line for line in attention)
    assert "attention: the record is slow: its last append took 1.2 s" in attention


async def test_while_the_store_is_away_the_view_of_the_replica_is_shown_marked_and_the_exit_code_says_so() -> None:
    """Kept: whether turns are taken, and what it serves. Missing: replicas and last steps; for programs, too."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        bench.store.away = True
        code, out, _ = await desk.say(show_status)
        same, answer = await desk.object(show_status)

    assert (code, same) == (3, 3)
    assert "the store is unavailable: the output is what this replica serves" in out
    assert "live 5 % of users (mode experiment)" in out
    assert "last step" not in out
    assert (answer["problem"]["reason"], answer["replicas"]) == ("STORE_UNAVAILABLE", None)
    assert answer["rollouts"]["replica_view"] is True
    assert answer["process"]["ready"] is True


async def test_programs_get_one_object() -> None:
    """Process, rollouts, replicas, and by slot the last step that changed who is served."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        code, answer = await Desk(bench).object(show_status)

    assert (code, answer["problem"]) == (0, None)
    assert [each["slot"] for each in answer["rollouts"]["slots"]] == ["shop"]
    assert answer["last_steps"]["shop"]["rollout"]["after_basis_points"] == 500


async def test_a_watch_shows_each_change_until_it_is_interrupted() -> None:
    """Two screens, one object a line; Ctrl-C is its proper end."""
    async with an_operated_sidecar() as bench:
        desk, pauses = Desk(bench), []

        def watch(commands: OperatorCommands) -> int:
            def pause(seconds: float) -> None:
                pauses.append(seconds)
                if len(pauses) > 1:
                    raise KeyboardInterrupt

            return show_status(replace(commands, pause=pause), watch=True)

        code, out, _ = await desk.say(watch, as_json=True)

    assert (code, pauses) == (0, [2.0, 2.0])
    assert [json.loads(line)["process"]["ready"] for line in out.splitlines()] == [True, True]


@requirement("SX-25")
async def test_a_drain_refuses_new_turns_until_it_is_taken_back() -> None:
    """The status says who drained the sidecar and why."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        drained, out, _ = await desk.say(drain, wish("", reason="a new kernel"))
        refused = await failure_of(bench.sidecar.bind(turn_id="turn-1"))
        _, shown, _ = await desk.say(show_status)
        back, again, _ = await desk.say(drain, wish("", reason="done"), resume=True)
        await bench.sidecar.bind(turn_id="turn-2")

    assert (drained, out) == (
        0,
        "drained: new turns are refused; open turns: 0, calls in flight: 1, including this one\n",
    )
    assert refused.reason == "DRAINING"
    assert "drained, refuses new turns" in shown
    assert "ada@example has it drained: a new kernel" in shown
    assert (back, again) == (0, "new turns are accepted again; open turns: 0, calls in flight: 1, including this one\n")


async def test_only_an_operator_who_means_it_drains() -> None:
    """A viewer may not; who says no, or cannot be asked, has changed nothing. To take turns again needs no question."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        desk.role = "viewer"
        code, _, errors = await desk.say(drain, wish(""))
        assert (code, "(ROLE_REQUIRED)" in errors) == (2, True)
        desk.role = "operator"
        for ask in (Answers(yes=False), None):
            code, _, errors = await desk.say(drain, wish("", yes=False), ask=ask)
            assert (code, "will refuse new turns" in errors) == (2, ask is None)
        assert (await desk.say(drain, wish("", yes=False), resume=True))[0] == 0
        await bench.sidecar.bind(turn_id="turn-1")


def test_they_are_typed_as_the_other_commands_of_operators_are() -> None:
    """A drain wants a reason; without a token nothing is asked."""
    code, said = typed(group="drain")
    assert (code, "--reason" in said) == (2, True)
    code, said = typed(target="unix:/nowhere.sock", group="status")
    assert (code, "there is no role token" in said) == (2, True)
