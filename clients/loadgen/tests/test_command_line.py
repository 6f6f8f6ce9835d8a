import asyncio
import io
import json
import signal
import sys
from pathlib import Path

import pytest

from clients.loadgen.tests.support.lying_sidecar_host import LyingSidecar, served
from subagents_loadgen.__main__ import main
from subagents_loadgen.plan import Mix, choice_of, tools_for
from subagents_loadgen.quantities import duration, fan_out, share, size
from subagents_loadgen.run_request import understood
from subagents_loadgen.running import run
from subagents_loadgen.wire.targets import is_local


@pytest.mark.parametrize(
    "target",
    [
        *("unix:/run/x.sock", "unix-abstract:x", "localhost:5000", "127.0.0.1:1", "[::1]:5", "dns:///localhost:5"),
        "ipv4:127.0.0.1:1,127.9.9.9:2",
    ],
)
def test_an_address_on_this_machine_is_taken(target: str) -> None:
    """Sockets and loopback."""
    assert is_local(target)
    assert understood(["--target", target, "--in-flight", "1"]).plan.targets[0].address == target


@pytest.mark.parametrize(
    "target", ["sidecar.example:443", "10.0.0.1:1", "dns:///sidecar:1", "ipv4:127.0.0.1:1,10.0.0.1:2", "xds:///x", ""]
)
def test_an_address_elsewhere_is_refused_unless_allowed(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Load on somebody else's server does not happen by mistake."""
    with pytest.raises(SystemExit) as refused:
        understood(["--target", target, "--in-flight", "1"])
    assert refused.value.code == 2
    assert "--allow-remote" in capsys.readouterr().err
    assert understood(["--target", target, "--in-flight", "1", "--allow-remote"]).plan.targets[0].address == target


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "one of the arguments --rate --in-flight is required"),
        ("--rate 1 --in-flight 1", "not allowed with argument"),
        ("--rate 0", "'0' is no rate"),
        ("--in-flight 0", "not a whole number of at least 1"),
        ("--in-flight 1 --duration 10", "'10' is no time"),
        ("--in-flight 1 --resume 101%", "'101%' is no share"),
        ("--in-flight 1 --fan-out 1:x", "'1:x' is no size with a weight"),
        ("--in-flight 1 --fan-out 1:0", "gives no size a weight"),
        ("--in-flight 1 --max-in-flight 3", "--max-in-flight belongs to --rate"),
        ("--in-flight 1 --scenario unary --cancel 1%", "need a stream"),
        ("--in-flight 1 --dur 1s", "unrecognized arguments"),
    ],
)
def test_a_command_line_without_sense_says_what_is_wrong(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and a sentence."""
    with pytest.raises(SystemExit) as refused:
        understood(["--target", "unix:/x", *arguments.split()])
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """Scenarios, examples and exit codes; per cent signs come out whole."""
    with pytest.raises(SystemExit) as shown:
        understood(["--help"])
    text = capsys.readouterr().out
    assert shown.value.code == 0
    assert all(part in text for part in ("scenarios:", "examples:", "exit codes:", "e.g. 5%"))


def test_units_and_weights_are_read() -> None:
    """What people write."""
    assert [duration(one) for one in ("500ms", "1.5s", "2m", "1h")] == [0.5, 1.5, 120, 3600]
    assert [share(one) for one in ("5%", "0.05", "100%", "0")] == [0.05, 0.05, 1, 0]
    assert [size(one) for one in ("512B", "4kB", "1MiB")] == [512, 4000, 1048576]
    assert fan_out("3") == ((3, 1.0),)
    assert fan_out("1:70,2:20.5") == ((1, 70.0), (2, 20.5))


def test_choices_follow_the_weights_and_shares() -> None:
    """Of 4,000 operations; each number always makes the same choice."""
    mix = Mix(fan_out=((1, 70), (4, 30)), resume=0.2, cancel=0.05)
    choices = [choice_of(mix, 1, number) for number in range(4000)]
    assert 1100 < sum(one.calls == 4 for one in choices) < 1300
    assert 700 < sum(one.resume for one in choices) < 900
    assert 150 < sum(one.cancel for one in choices) < 250
    again = choice_of(mix, 1, 17)
    assert (again.principal, again.calls, again.resume) == (
        choices[17].principal, choices[17].calls, choices[17].resume,
    )  # fmt: skip


def test_tools_differ_as_far_as_there_are_enough() -> None:
    """Five calls of two tools; with a wish, only what was wished for."""
    choice = choice_of(Mix(fan_out=((5, 1),)), 1, 1)
    assert sorted(tools_for(choice, ["ask_a", "ask_b"], ())[:2]) == ["ask_a", "ask_b"]
    assert len(tools_for(choice, ["ask_a", "ask_b"], ())) == 5
    assert set(tools_for(choice, ["ask_a", "ask_b"], ("ask_c",))) == {"ask_c"}


def test_what_cannot_be_measured_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A secret that cannot be read, said without a traceback."""
    given = ["--target", f"unix:{tmp_path}/s", "--in-flight", "1", "--boot-secret-file", str(tmp_path / "none")]
    assert main(given) == 3
    assert "not measured: the boot secret cannot be read" in capsys.readouterr().err


async def test_the_program_prints_json_and_its_exit_code_tells_a_lie() -> None:
    """As a process of its own; standard output holds JSON alone, standard error nothing, as it is no terminal."""
    async with served(LyingSidecar(lambda outcomes: outcomes.reverse())) as target:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "subagents_loadgen", "--target", target, "--json", "--warm-up", "0s"),
            *("--rate", "100", "--requests", "3", "--fan-out", "2"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await program.communicate()
    report = json.loads(output)
    assert program.returncode == 1, errors
    assert errors == b""
    assert report["operations"]["measured"] == 3
    assert report["violations"] == {"outcomes are not in emission order": 3}
    assert report["run"]["stages"][0]["loop"] == "open"
    assert {"whole_since_due", "whole_since_sent", "bind", "first_frame", "dispatch", "end"} <= set(
        report["latency_us"]
    )


async def test_an_interrupt_ends_the_load_in_order_and_reports() -> None:
    """Ctrl-C in an hour's run: what was measured until then is shown, and 130 says so."""
    servicer = LyingSidecar()
    async with served(servicer) as target:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "subagents_loadgen", "--target", target, "--json", "--warm-up", "0s"),
            *("--rate", "100", "--duration", "1h"),
            stdout=asyncio.subprocess.PIPE,
        )
        await servicer.has_enough.wait()
        program.send_signal(signal.SIGINT)
        output, _ = await program.communicate()
    report = json.loads(output)
    assert program.returncode == 130
    assert "interrupted before its end" in report["warnings"]
    assert report["operations"]["measured"] == len(servicer.principals) - 1
    assert report["errors"] == {}


async def test_the_progress_is_one_line_written_over_and_wiped() -> None:
    """On a terminal; the report begins on a clean line."""
    screen = io.StringIO()
    async with served(LyingSidecar()) as target:
        await run(understood(["--target", target, "--in-flight", "1", "--requests", "3", "--warm-up", "0s"]), screen)
    assert screen.getvalue().startswith("\r\033[K0 of 10 s: 0 operations, 0 failed")
    assert screen.getvalue().endswith("\r\033[K")
    assert "\n" not in screen.getvalue()
