"""A raise while the cohort flag is off is taken, and says that it serves nobody, and what comes after the pause."""

from sidecar.cli.subagent import verbs
from tests.support.enum_words import gate_lines
from tests.support.operator_desk import INSIDE, Desk, wish
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requirement import requirement

COHORT = "ai_assistant_subagent_shop_cohort"
SAID = (
    f"no user is served by shop: its cohort flag {COHORT} is off (a pause); once it is on again, 25 % of users are"
    " served at once, and not 5 % as before this step"
)


async def paused(bench: OperatedSidecar) -> None:
    """Bring the definition to 5 %, and pause it."""
    await bench.promoted(500)
    await bench.step("SwitchCohortFlagOff")


@requirement("PF1-FR-2d")
async def test_the_answer_of_a_raise_in_a_pause_says_who_is_served_now_and_after_it() -> None:
    """In a dry run, in the answer, and again when the same request is repeated; the gate was asked as ever."""
    async with an_operated_sidecar() as bench:
        await paused(bench)
        dry = await bench.step("SetRamp", ramp_basis_points=2500, header={"dry_run": True})
        header = {"request_id": "raise-1", "expected_revision": await bench.revision()}
        raised = await bench.step("SetRamp", ramp_basis_points=2500, header=header)
        repeated = await bench.step("SetRamp", ramp_basis_points=2500, header=header)
        during = await bench.offers(INSIDE)
        await bench.step("SwitchFlagOn", flag=2)
        after = await bench.offers(INSIDE)

    assert [list(each.warnings) for each in (dry, raised, repeated)] == [[SAID]] * 3
    assert (raised.changed, gate_lines(raised)) == (True, ["pre_ramp: pass: as scripted"])
    assert (during, after) == ([], ["ask_shop"])


async def test_only_a_raise_that_a_pause_holds_back_says_so() -> None:
    """The first step switches the flags on itself; a raise without a pause and a step down say nothing."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        first = await bench.step("SetRamp", ramp_basis_points=500)
        raised = await bench.step("SetRamp", ramp_basis_points=2500)
        await bench.step("SwitchCohortFlagOff")
        lowered = await bench.step("SetRamp", ramp_basis_points=900)

    assert [list(each.warnings) for each in (first, raised, lowered)] == [[], [], []]


async def test_flags_that_cannot_be_seen_are_told_as_such() -> None:
    """Their backend is away: nobody is served either, and nobody knows of a pause."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        bench.flags.away = True
        raised = await bench.step("SetRamp", ramp_basis_points=2500)

    (said,) = raised.warnings
    assert f"its cohort flag {COHORT} cannot be seen; once it is on again, 25 % of users" in said


async def test_the_command_prints_it_as_a_warning() -> None:
    """For people in a line, for programs in `warnings`."""
    async with an_operated_sidecar() as bench:
        await paused(bench)
        desk = Desk(bench)
        code, out, _ = await desk.say(verbs.ramp, wish(), 2500)
        _, said = await desk.object(verbs.ramp, wish(), 5000)

    assert (code, f"  warning: {SAID}" in out) == (0, True)
    assert "50 % of users are served at once, and not 25 %" in said["steps"][0]["warnings"][0]
