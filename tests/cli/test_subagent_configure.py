"""`sidecar subagent configure`: mode and ramp curve of a slot, as an operator writes them."""

import pytest

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent import views as reading
from sidecar.cli.subagent.output.parsing import curve_of
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operator_desk import Desk, typed, wish
from tests.support.operators import an_operated_sidecar
from tests.support.requirement import requirement


@requirement("PF1-D-2")
async def test_mode_and_curve_are_declared_each_alone_and_shown() -> None:
    """What is left out stays; `cohort` is read as `experiment`; what is refused says why."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        curve = await desk.say(verbs.configure, wish(), "", curve_of("5, 25,100"))
        full = await desk.say(verbs.configure, wish(), "full", None)
        dry = await desk.say(verbs.configure, wish(dry_run=True), "cohort", ())
        shown = await desk.say(reading.show_slot, "shop")
        cohort = await desk.say(verbs.configure, wish(), "cohort", None)
        mode = (await bench.status()).mode
        wrong = await desk.say(verbs.configure, wish(), "", (2500, 500))

    assert [curve[0], full[0], dry[0], cohort[0], wrong[0]] == [0, 0, 0, 0, 1]
    assert "shop: mode experiment, ramp curve 5 %, 25 %, 100 %; no ramp moves" in curve[1]
    assert "mode full, ramp curve 5 %, 25 %, 100 %; the control arm is admitted" in full[1]
    assert "  mode full; ramp curve: 5 %, 25 %, 100 %\n" in shown[1]
    assert mode == pb.ROLLOUT_MODE_EXPERIMENT
    assert "the ramp curve does not rise" in wrong[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to declare; give --mode, --curve or both"),
        (["--curve", "5,lots"], "'lots' is not a percentage"),
        (["--mode", "everybody"], "experiment"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_asked(arguments: list[str], said: str) -> None:
    """Exit code 2, and what may be written."""
    code, output = typed("configure", "shop", "--reason", "x", "--target", "unix:/nowhere.sock", *arguments)
    assert (code, said in output) == (2, True), output
