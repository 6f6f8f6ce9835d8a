"""`sidecar score`: a judge's score is recorded, and the timeline of the turn shows it."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.evaluation.commands import add_evaluation
from sidecar.cli.evaluation.scoring import ScoreOptions, record_score
from sidecar.cli.output.drawing import ASCII, utc
from sidecar.cli.output.turn_timeline import Drawing, turn_lines
from sidecar.cli.subagent.command import FromEnvironment
from tests.rpc.test_scores import a_turn
from tests.support.operator_desk import Desk
from tests.support.operators import an_operated_sidecar
from tests.support.seen_turns import seen


def options(**fields: Any) -> ScoreOptions:
    """Return a judge's score of the first call of turn-1."""
    given: dict[str, Any] = {
        "turn_id": "turn-1",
        "dispatch_id": "dispatch-1",
        "call_id": "call-1",
        "name": "correctness",
        "value": 0.25,
        "label": "wrong_price",
    }
    return ScoreOptions(**(given | fields))


async def test_a_judges_score_is_recorded_and_shown_in_the_timeline() -> None:
    """Once, with the same --id; without one, each command records a score."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        await a_turn(bench.sidecar, "ask_shop")
        desk = Desk(bench)
        code, out, errors = await desk.say(record_score, options(score_id="s-1"))
        again, shown = await desk.object(record_score, options(score_id="s-1"))
        another, made = await desk.object(record_score, options(value=1.0, label=""))
        turn = await seen(bench.sidecar, "turn-1")

    assert (code, errors) == (0, "")
    assert out == "correctness 0.25 of shop, active in slot shop: recorded\n"
    assert (again, shown["recorded_before"], shown["arm"]) == (0, True, "active")
    assert (another, made["recorded_before"], made["score_id"]) == (0, False, "cli-1")
    drawing = Drawing(ASCII, 100, utc(turn.turn.ended_at))
    lines = ["".join(part.text for part in line) for line in turn_lines(turn, drawing)]
    assert [line[4:].split("  ")[-1] for line in lines if "score " in line] == [
        "score correctness 0.25 (wrong_price) by judge ada@example",
        "score correctness 1 by judge ada@example",
    ]


async def test_a_refusal_says_what_is_wrong() -> None:
    """With the exit codes of the other commands of operators."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        code, _, errors = await desk.say(record_score, options())
        desk.role = "breaker"
        forbidden, _, why = await desk.say(record_score, options())

    assert (code, "UNKNOWN_TURN" in errors) == (1, True)
    assert (forbidden, "ROLE_REQUIRED" in why) == (2, True)


def test_a_value_out_of_range_is_refused_before_anything_is_sent() -> None:
    """No sidecar is needed to know."""
    app, environment = typer.Typer(), FromEnvironment(token=lambda: "", target=lambda: "")
    app.callback()(lambda: None)
    add_evaluation(app, lambda _: pytest.fail("no settings are read"), environment)
    result = CliRunner().invoke(app, "score t d c --name x --value 1.5 --target unix:/nowhere".split())
    assert (result.exit_code, "less than or equal to 1" in result.output) == (2, True), result.output
