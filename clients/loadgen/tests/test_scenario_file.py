"""Scenarios in YAML: what is read, and what a mistake is told with."""

from collections import Counter
from pathlib import Path

import pytest

from subagents_loadgen.plan import Arrivals, Mix, Scenario, arguments_for, choice_of, place_of
from subagents_loadgen.run_request import understood
from subagents_loadgen.scenario_file import UnusableScenario, read_plan

WHOLE = """\
name: evening
targets:
  - {target: unix:/run/a.sock, boot_secret_file: /run/a.secret, weight: 3}
  - {target: "localhost:5000"}
turns:
  - name: small
    weight: 80
    calls: {1: 70, 3: 30}
    tools: [ask_shop, ask_rewards]
    arguments: {request: socks}
    size: {0B: 90, 4kB: 10}
    cancel: 5%
    resume: 10%
    reconnect: 2%
    slow_reader: 50ms
  - {name: only-bind, weight: 20, rpc: bind}
warm_up: 5s
stages:
  - {name: ramp, duration: 30s, rate: 10, ramp_to: 50, arrivals: poisson}
  - {name: hold, duration: 1m, in_flight: 8}
thresholds:
  whole.p99: "< 250ms"
  turn.small.p99.9: "<= 1s"
  failed: "<= 1%"
  reason.ADMISSION_REFUSED: "< 10"
"""
LEAST = "targets: [{target: unix:/x}]\nstages: [{duration: 1s, in_flight: 1}]\n"


def read(folder: Path, text: str) -> Path:
    """Write a scenario."""
    path = folder / "load.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_everything_that_a_scenario_can_say_is_read(tmp_path: Path) -> None:
    """Targets, turns, stages and thresholds."""
    plan = read_plan(read(tmp_path, WHOLE))

    assert [(one.address, one.boot_secret_file, one.weight) for one in plan.targets] == [
        ("unix:/run/a.sock", Path("/run/a.secret"), 3.0),
        ("localhost:5000", None, 1.0),
    ]
    small, bind = plan.mixes
    assert (small.fan_out, small.sizes) == (((1, 70.0), (3, 30.0)), ((0, 90.0), (4000, 10.0)))
    assert (small.cancel, small.resume, small.reconnect, small.slow_reader) == (0.05, 0.1, 0.02, 0.05)
    assert (small.tools, small.arguments_json) == (("ask_shop", "ask_rewards"), '{"request": "socks"}')
    assert (bind.scenario, bind.weight) == (Scenario.BIND, 20)
    ramp, hold = plan.stages
    assert (ramp.rate, ramp.ramp_to, ramp.arrivals, ramp.seconds, ramp.warm_up) == (10, 50, Arrivals.POISSON, 30, 5)
    assert (hold.rate, hold.in_flight, hold.seconds, hold.warm_up) == (None, 8, 60, 0)
    assert [(one.metric, one.comparison, one.bound) for one in plan.thresholds] == [
        ("whole.p99", "<", 0.25), ("turn.small.p99.9", "<=", 1.0), ("failed", "<=", 0.01),
        ("reason.ADMISSION_REFUSED", "<", 10.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "the file is empty; allowed fields: name, targets"),
        ("targets: [", 1, "not YAML"),
        ("- a\n", 1, "expected fields (name, targets"),
        ("stages: [{duration: 1s, in_flight: 1}]\n", 1, "the field 'targets' is missing"),
        (LEAST + "tunrs: []\n", 3, "tunrs: there is no such field (did you mean 'turns'?); allowed: name, targets"),
        (LEAST + "turns: []\n", 3, "turns: expected a list with at least one entry"),
        (LEAST + "turns:\n- cancle: 5%\n", 4, "turns[0].cancle: there is no such field (did you mean 'cancel'?)"),
        (LEAST + "turns:\n- cancel: often\n", 4, "turns[0].cancel: 'often' is no share; write e.g. 5% or 0.05"),
        (LEAST + "turns:\n- rpc: tern\n", 4, "turns[0].rpc: 'tern' is not allowed; allowed: bind, turn, unary"),
        (LEAST + "turns:\n- {rpc: unary, resume: 5%}\n", 4, "turns[0].resume: needs a stream"),
        (LEAST + "turns:\n- calls:\n    1: 70\n    x: 30\n", 6, "'x' is not a whole number of at least 1"),
        (LEAST + "turns:\n- calls: {1: some}\n", 4, "'some' is no weight; write a number of at least 0"),
        (LEAST + "turns:\n- size: 5XB\n", 4, "turns[0].size: '5XB' is no size; write e.g. 512B, 4kB or 1MiB"),
        (
            LEAST + "turns:\n- arguments: [1]\n",
            4,
            "turns[0].arguments: expected fields, as the tools take JSON objects",
        ),
        (LEAST + "turns:\n- weight: 0\n", 3, "turns: no turn has a weight above 0"),
        (LEAST + "seed: 1\nseed: 2\n", 4, "seed: is given twice, first in line 3; keep one"),
        (LEAST + "thresholds:\n  whole.q99: < 1s\n", 4, "thresholds.whole.q99: 'whole.q99' is no metric; allowed: "),
        (LEAST + "thresholds:\n  whole.p99: fast\n", 4, "'fast' is no bound; write e.g. '< 250ms'"),
        (LEAST + "thresholds:\n  whole.p99: < 250\n", 4, "needs a unit, as whole.p99 is a time: us, ms or s"),
        (LEAST + "thresholds:\n  failed: < 1s\n", 4, "'< 1s' is a time, and failed is none"),
        (LEAST + "thresholds:\n  turn.big.p99: < 1s\n", 4, "there is no such turn; allowed: turn"),
        ("targets: [{target: shop.example}]\n" + LEAST[29:], 1, "targets[0].target: 'shop.example' is beyond this"),
        ("targets: [{target: unix:/x}]\nstages:\n- duration: 1s\n", 3, "stages[0]: give `rate`"),
        ("targets: [{target: unix:/x}]\nstages:\n- {duration: 10, rate: 1}\n", 3, "'10' is no time; write e.g."),
        ("targets: [{target: unix:/x}]\nstages:\n- {duration: 1s, in_flight: 1, ramp_to: 2}\n", 3, "belongs to `rate`"),
    ],
)
def test_a_mistake_is_told_with_line_field_and_what_is_allowed(tmp_path: Path, text: str, line: int, said: str) -> None:
    """The reader can mend it without this page."""
    path = read(tmp_path, text)
    with pytest.raises(UnusableScenario) as refused:
        read_plan(path)
    assert str(refused.value).startswith(f"{path}:{line}: ")
    assert said in str(refused.value)


def test_a_mistake_in_a_file_ends_the_command_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Like one in the options."""
    path = read(tmp_path, LEAST + "turns:\n- cancel: often\n")
    with pytest.raises(SystemExit) as refused:
        understood(["--file", str(path)])
    assert refused.value.code == 2
    assert f"{path}:4: turns[0].cancel" in capsys.readouterr().err


def test_options_that_the_file_decides_are_refused_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The target may be given, as paths differ from machine to machine."""
    path = str(read(tmp_path, LEAST))
    assert understood(["--file", path, "--target", "unix:/other"]).plan.targets[0].address == "unix:/other"
    with pytest.raises(SystemExit):
        understood(["--file", path, "--rate=5"])
    assert "--rate cannot be given with --file" in capsys.readouterr().err


def test_arguments_are_filled_up_to_the_size() -> None:
    """In the text of the request; a smaller size leaves them alone."""
    large, small = Mix(sizes=((4000, 1),)), Mix(sizes=((3, 1),))
    assert 4000 <= len(arguments_for(large, choice_of(large, 1, 1))) < 4010
    assert arguments_for(large, choice_of(large, 1, 1)).startswith('{"request": "What is new? xxx')
    assert arguments_for(small, choice_of(small, 1, 1)) == small.arguments_json


def test_kinds_of_turns_follow_their_weights() -> None:
    """Of 4,000 operations; each number always makes the same choice."""
    places = Counter(place_of([80, 20], 1, number, "kind") for number in range(4000))
    assert 3100 < places[0] < 3300
    assert [place_of([1, 1], 1, 7, "kind")] * 3 == [place_of([1, 1], 1, 7, "kind") for _ in range(3)]
