"""`sidecar subagent flag`: both flags as a table, a pause and its end, a kill by the flag, edits for somebody else."""

from datetime import timedelta

import pytest

from sidecar.cli.subagent.flag import show_flags, switch_off, switch_on
from tests.support.operator_desk import INSIDE, Answers, Desk, typed, wish
from tests.support.operators import an_operated_sidecar, gated
from tests.support.requirement import requirement

KILL, COHORT = "ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"


@requirement("PF1-D-7")
async def test_a_pause_and_its_end_say_what_they_did_and_whom_they_reach() -> None:
    """Off reads nothing first, so a watchdog may do it, too; on sends the revision that it has read."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        desk.role = "breaker"
        code, out, _ = await desk.say(switch_off, wish(reason="it talks too much"), "cohort", None)
        away = await bench.offers(INSIDE)
        not_on = await desk.say(switch_on, wish(), "cohort", None)
        desk.role = "operator"
        on = await desk.say(switch_on, wish(wait=True), "cohort", None)
        back = await bench.offers(INSIDE, turn_id="turn-2")
        again, told = await desk.object(switch_on, wish(), "cohort", 0)

    assert (code, away, not_on[0], on[0], back) == (0, [], 2, 0, ["ask_shop"])
    assert "shop: cohort flag -> off; the definition is paused until the flag is on again" in out
    assert f"  cohort flag {COHORT} of memory: on -> off\n" in out
    assert "(promoted): it serves no user until the flag is on again; state and ramp (5 %) stay" in out
    assert "shop: cohort flag -> on; the definition serves its ramp of 5 % again" in on[1]
    assert f"{COHORT} of memory: off -> on" in on[1]
    assert "in effect: every living replica (1)" in on[1]
    assert (again, told["steps"][0]["changed"], told["steps"][0]["flag"]["after"]) == (0, False, "on")


async def test_the_flags_are_shown_as_a_table_each_alone_if_wished_and_as_json() -> None:
    """Value, backend and freshness; whoever shares them is named; a definition without flags has none to show."""
    async with an_operated_sidecar(gated("shop"), gated("rewards", enabled_via_flag=KILL)) as bench:
        desk = Desk(bench)
        desk.role = "viewer"
        await bench.promoted(ramp=500)
        code, out, _ = await desk.say(show_flags, "shop")
        _, one, _ = await desk.say(show_flags, "shop", "cohort")
        _, told = await desk.object(show_flags, "shop", "kill")
        bench.flags.away, bench.flags.read_only = True, True
        _, stale, _ = await desk.say(show_flags, "shop")
        unknown = await desk.say(show_flags, "nobody")

    (definition,) = told["definitions"]
    lines = [line.split() for line in out.splitlines()]
    assert (code, unknown[0]) == (0, 1)
    assert lines[0][:4] == ["definition", "state", "flag", "name"]
    assert lines[1][1:5] == ["live", "kill", KILL, "on"]
    assert lines[1][-1].startswith("rewards@")
    assert "flag backend memory: values are 0 ms old; this sidecar can switch its flags" in out
    assert (f"kill    {KILL}" in one, COHORT in one) == (False, True)
    assert [(each["kind"], each["name"], each["value"]) for each in definition["flags"]] == [("kill", KILL, "on")]
    assert (definition["state"], definition["backend"]["name"], definition["writable"]) == ("promote", "memory", True)
    assert "flag backend memory: never reached; unreachable: definitions with flags in this backend are not" in stale
    assert "read-only here" in stale


async def test_a_definition_that_names_no_flag_says_so() -> None:
    """Nothing gates it."""
    async with an_operated_sidecar(gated("shop", enabled_via_flag=None)) as bench:
        desk = Desk(bench)
        shown = await desk.say(show_flags, "shop")
        refused = await desk.say(switch_off, wish(), "cohort", None)

    assert (shown[0], "names a flag: no flag gates it" in shown[1]) == (0, True)
    assert (refused[0], "names no flag: none decides about it (TRANSITION_REFUSED)" in refused[2]) == (1, True)


@requirement("PF1-D-25", "PF1-FR-9b")
async def test_the_kill_flag_off_is_confirmed_because_it_is_for_good() -> None:
    """Nobody there: exit code 2, and no flag is touched; a no is a no; with --yes it is switched."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        alone = await desk.say(switch_off, wish(yes=False), "kill", None)
        somebody = Answers(yes=False)
        declined = await desk.say(switch_off, wish(yes=False), "kill", None, ask=somebody)
        before = dict(bench.flags.on)
        done = await desk.say(switch_off, wish(), "kill", None)
        again = await desk.say(switch_on, wish(), "kill", None)

    assert (alone[0], declined[0], before[KILL]) == (2, 2, True)
    assert "permanently: switching the flag off is a kill, and switching it on again does not restore them" in alone[2]
    assert "every other definition with this kill flag" in somebody.asked[0]
    assert (done[0], bench.flags.on[KILL]) == (0, False)
    assert "switching the flag off kills it permanently" in done[1]
    assert (again[0], f"the kill flag {KILL} was switched off, which kills shop" in again[2]) == (1, True)


@requirement("PF1-D-35")
async def test_flags_of_somebody_else_are_an_edit_that_can_be_waited_for() -> None:
    """Exit code 3 until the sidecar sees the flag as wanted; only the one that was meant is waited for."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        bench.flags.read_only = True
        code, out, _ = await desk.say(switch_off, wish(), "cohort", None)
        late = await desk.say(switch_off, wish(wait=True, patience=timedelta(seconds=9)), "cohort", None)

        async def edited() -> None:
            bench.flags.on[COHORT] = False

        desk.meanwhile = edited
        done = await desk.say(switch_off, wish(wait=True), "cohort", None)

    assert (code, late[0], done[0]) == (3, 3, 0)
    assert f"a flag must be switched in its backend first: set {COHORT} to False" in out
    assert f"cohort flag {COHORT} of memory: is off" in done[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cohort", "off"], "give the reason, for the audit, with --reason"),
        (["cohort", "away", "--reason", "x"], "'away' is not one of 'on', 'off'"),
        (["both"], "'both' is not one of 'kill'"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_asked(arguments: list[str], said: str) -> None:
    """Exit code 2, and what may be written."""
    code, output = typed("flag", "shop", *arguments, "--target", "unix:/nowhere.sock")
    assert (code, said in " ".join(output.split())) == (2, True), output


@pytest.mark.parametrize(
    "arguments", [[], ["kill"], ["cohort", "on", "--reason", "x"], ["kill", "off", "-m", "x", "-y"]]
)
def test_what_is_typed_reaches_the_sidecar_that_is_named(arguments: list[str]) -> None:
    """There is none: each form of the command says so, with exit code 2."""
    code, output = typed("flag", "shop", *arguments, "--target", "unix:/nowhere.sock", token="rt1.x.y")
    assert (code, "no sidecar answers at unix:/nowhere.sock" in output) == (2, True), output
