"""`sidecar eval` as typed: exit codes, files, messages, and nothing left behind."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from subagents_evals.command import FELL_SHORT, NOT_MEASURED, main
from subagents_evals.inputs.strict_yaml import read_as
from subagents_evals.measures.results import read_run
from subagents_evals.runs.scaling import OTHERS, Others
from tests.architecture.reading import REPOSITORY

EXAMPLE: Final = str(REPOSITORY / "examples" / "config")
PLAYED: Final = re.compile(rb"[1-9][0-9]*/[0-9]{4}")
"""How many trials were played, of those of a run of the whole set with repetitions."""
WRONG: Final = """
version: 1
cases:
  - {id: wrong, message: "Where is my parcel?", calls: [shop]}
  - {id: right, message: "Where is my parcel?", calls: [support]}
"""


def sets_with(folder: Path, cases: str) -> str:
    """Write a set with the example's suite."""
    folder.mkdir()
    (folder / "suite.yaml").write_bytes((Path(EXAMPLE) / "evals" / "suite.yaml").read_bytes())
    (folder / "cases.yaml").write_text(cases, "utf-8")
    return str(folder)


@pytest.mark.system
def test_a_run_that_reaches_its_thresholds_ends_with_code_0_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some cases of one sub-agent, through the whole: table, page and JSON."""
    code = main(["run", EXAMPLE, "--only", "shop-*", "--report", str(tmp_path / "report")])

    run = read_run(tmp_path / "report" / "run.json")
    assert code == 0
    assert run.metrics.by_slot["shop"].routing.value == 1.0
    assert "<svg" in (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "100.0" in capsys.readouterr().out


@pytest.mark.system
def test_a_run_that_falls_short_ends_with_code_1_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table, or as JSON for a pipeline."""
    sets = sets_with(tmp_path / "evals", WRONG)

    code = main(["run", EXAMPLE, "--sets", sets, "--only", "*", "--slot", "shop", "--slot", "support", "--json"])

    said = json.loads(capsys.readouterr().out)
    assert code == FELL_SHORT
    assert "shop: routing_accuracy is 0.000, at least 0.95 is required" in said["short"]
    assert said["metrics"]["confusion"]["shop"]["support"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "/nowhere"], "/nowhere/evals/suite.yaml: cannot be read"),
        (["run", EXAMPLE, "--only", "nothing"], "no case fits the filters"),
        (["run", EXAMPLE, "--candidate", "nobody"], "--candidate nobody"),
        (["run", EXAMPLE, "--record", "pre_ramp"], "pre_ramp is asked about a raise: give --from and --to"),
        (["run", EXAMPLE, "--record", "pre_merge", "--only", "shop-*"], "--record needs all cases of a sub-agent"),
        (["compare", "nonsense", EXAMPLE], "write <revision>..<revision>"),
        (["compare", "no-such-revision..HEAD", EXAMPLE], "no-such-revision"),
        (["run", EXAMPLE, "--model", "no-such:model"], "the model 'no-such:model' cannot be used: "),
        (["run", EXAMPLE, "--judge-model", "no-such:model"], "the model 'no-such:model' cannot be used: "),
        (["scale", EXAMPLE, "--model", "no-such:model"], "the model 'no-such:model' cannot be used: "),
        (["scale", EXAMPLE, "--steps", "2,40"], "3 sub-agents are in the configuration, and 30 can be measured"),
        (["add", "/nowhere.yaml", EXAMPLE], "/nowhere.yaml: cannot be read"),
        (["sample", "--target", "unix:/n", "--boot-secret-file", "/nowhere", "--seed", "1", "--to", "x"], "/nowhere"),
    ],
)
def test_what_cannot_be_measured_ends_with_code_2_and_one_message(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any sidecar is started; no traceback."""
    assert main(arguments) == NOT_MEASURED
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


class Refusing(BaseHTTPRequestHandler):
    """Answers every request as a provider whose key is wrong."""

    def do_POST(self) -> None:
        """Refuse."""
        body = b'{"error": {"message": "the key is wrong", "type": "invalid_request_error"}}'
        self.send_response(HTTPStatus.UNAUTHORIZED)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every model of OpenAI's refuse its key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.system
@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("command", ["run", "scale"])
def test_a_model_that_refuses_every_call_measured_nothing(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No routing accuracy of nought that a gate could take for the description's."""
    code = main([command, EXAMPLE, "--model", "openai:some", "--only", "shop-coffee"])

    assert code == NOT_MEASURED
    assert "the key is wrong" in capsys.readouterr().err


@pytest.mark.system
@pytest.mark.usefixtures("refused")
def test_a_judge_that_refuses_leaves_the_rest_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was routed is measured; that nothing was judged makes the run incomplete."""
    report = ("--report", str(tmp_path))
    code = main(["run", EXAMPLE, "--judge-model", "openai:some", "--only", "shop-coffee", *report])

    run = read_run(tmp_path / "run.json")
    assert (code, run.metrics.all.routing.value, run.metrics.all.quality.of) == (FELL_SHORT, 1.0, 0)
    assert "answers that were not judged: 1; shop-coffee" in capsys.readouterr().out


def test_results_of_a_set_with_gaps_are_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A set that lost its hard cases must not promote anything; refused before anything is played."""
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("version: 1\ngates: {}\n", "utf-8")
    sets = sets_with(tmp_path / "evals", WRONG)

    code = main(
        ["run", EXAMPLE, "--sets", sets, "--slot", "shop", "--record", "pre_merge", "--manifest", str(manifest)]
    )

    said = capsys.readouterr().err
    assert code == NOT_MEASURED
    assert "shop: no case of kind switch leads from rewards to shop" in said
    assert "rewards: no case of kind switch" not in said
    assert manifest.read_text("utf-8") == "version: 1\ngates: {}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["run", EXAMPLE, "--repetitions", "0"], ["scale", EXAMPLE, "--steps", "a"]]
)
def test_a_wrong_option_ends_with_code_2(arguments: list[str]) -> None:
    """As argparse does."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2


@pytest.mark.system
def test_scale_measures_up_to_thirty_sub_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than the configuration has: tokens rise with each."""
    code = main(["scale", EXAMPLE, "--only", "shop-*", "--steps", "3,12,30", "--report", str(tmp_path)])

    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert code == 0
    assert [int(row[0]) for row in rows] == [3, 12, 30]
    tokens = [int(row[3].replace(",", "")) for row in rows]
    assert tokens[0] < tokens[1] < tokens[2]
    assert (tmp_path / "scale.html").read_text("utf-8").count("<path") == 3


def test_there_are_enough_other_sub_agents_for_thirty() -> None:
    """With descriptions of their own."""
    others, _ = read_as(OTHERS, Others)

    assert len({one.id for one in others.sub_agents}) == len({one.description for one in others.sub_agents}) == 27


@pytest.mark.system
@pytest.mark.real_start
async def test_an_evaluation_that_is_killed_leaves_no_sidecar_and_no_folder() -> None:
    """SIGKILL in the middle of a run; the watchdog ends the sidecar and removes its folder."""
    with tempfile.TemporaryDirectory(prefix="e-") as name:  # short: sockets are below it
        async with asyncio.timeout(60):
            await _killed_in_the_middle(Path(name))

        assert os.listdir(name) == []


async def _killed_in_the_middle(folder: Path) -> None:
    """Kill an evaluation that has played a case; return when its watchdog and its sidecar have ended, too."""
    command = (sys.executable, "-m", "sidecar", "eval", "run", EXAMPLE, "--repetitions", "20")
    on_a_terminal = {"TTY_COMPATIBLE": "1", "COLUMNS": "120"}  # shows how many cases were played
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder), **on_a_terminal},
    )
    assert process.stdout is not None
    shown = b""
    while not PLAYED.search(shown):
        shown += await process.stdout.readexactly(1)
    sidecars = _running_below(folder)
    assert len(sidecars) == 1
    async with _ended(*sidecars):
        process.send_signal(signal.SIGKILL)
        await process.stdout.read()  # ends with the watchdog, which has it open as well
    await process.wait()


@asynccontextmanager
async def _ended(*processes: int) -> AsyncIterator[None]:
    """Wait at the end until processes have ended that are no children of this one."""
    loop = asyncio.get_running_loop()
    ends = [(os.pidfd_open(one), asyncio.Event()) for one in processes]
    try:
        for handle, end in ends:
            loop.add_reader(handle, end.set)
        yield
        for _, end in ends:
            await end.wait()
    finally:
        for handle, _ in ends:
            loop.remove_reader(handle)
            os.close(handle)


def _running_below(folder: Path) -> list[int]:
    """Return the ids of processes that name the folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [int(one.parent.name)] if str(folder).encode() in one.read_bytes() else []
    return found
