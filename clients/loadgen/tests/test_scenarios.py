"""Whole scenarios: stages, several targets, thresholds, reports, and turns that are ended whatever happens."""

import asyncio
import json
import re
import subprocess
import sys
from contextlib import AsyncExitStack
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import grpc
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from clients.loadgen.tests.support.forgetful_sidecar_host import Forgetful
from clients.loadgen.tests.support.lying_sidecar_host import LyingSidecar, served
from subagents_loadgen.__main__ import exit_code, main
from subagents_loadgen.hdr import write_logs
from subagents_loadgen.loops import Progress, Sample
from subagents_loadgen.page import page_of
from subagents_loadgen.plan import Load, Mix, Plan, Target
from subagents_loadgen.report import Report, as_json
from subagents_loadgen.run_request import understood
from subagents_loadgen.running import run
from subagents_loadgen.tally import Tally
from subagents_loadgen.turns import Connection, Turns
from subagents_loadgen.wire.operation import Finished
from subagents_loadgen.wire.rpcs import AsyncRpcs
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests

PAGE = Path(__file__).parents[3] / "docs/load-testing.md"
SCENARIO = """\
targets:
TARGETS
turns:
  - {name: single, weight: 1, calls: 1}
  - {name: slow, weight: 1, calls: 2, slow_reader: 1ms}
  - {name: moving, weight: 1, calls: 2, reconnect: 100%, size: 2kB}
  - {name: unary, weight: 1, rpc: unary}
stages:
  - {name: first, duration: 1m, in_flight: 2, requests: 12}
  - {name: second, duration: 1m, rate: 400, ramp_to: 800, requests: 12}
thresholds:
  failed: "<= 0"
  turn.moving.p99: "< 60s"
"""


def scenario(folder: Path, *sidecars: SidecarForTests) -> Path:
    """Write the scenario for some sidecars."""
    lines = []
    for sidecar in sidecars:
        secret = sidecar.folder / "secret"
        secret.write_text(SECRET)
        lines.append(f"  - {{target: '{sidecar.dispatch_target}', boot_secret_file: {secret}}}")
    path = folder / "load.yaml"
    path.write_text(SCENARIO.replace("TARGETS", "\n".join(lines)).replace('1m"', '60s"'))
    return path


async def measured(folder: Path) -> tuple[Report, list[SidecarForTests]]:
    """Carry out the scenario over two sidecars."""
    async with AsyncExitStack() as stack:
        sidecars = [await stack.enter_async_context(running_sidecar_for_tests()) for _ in range(2)]
        report = await run(understood(["--file", str(scenario(folder, *sidecars))]))
    return report, sidecars


async def test_a_mix_in_stages_over_two_sidecars_keeps_every_promise(tmp_path: Path) -> None:
    """Each kind of turn and each sidecar gets its share, and every turn that was begun is ended."""
    report, sidecars = await measured(tmp_path)

    assert (dict(report.tally.violations), dict(report.tally.errors), report.left_open) == ({}, {}, 0)
    assert report.tally.whole.count == 24
    assert sorted(report.tally.by_kind) == ["moving", "single", "slow", "unary"]
    assert report.tally.steps["resume"].count == report.tally.by_kind["moving"].count
    assert [one.started for one in report.stages] == [12, 12]
    bound = [len(one.recorder.of("turn_bound")) for one in sidecars]
    assert bound == [len(one.recorder.of("turn_routed")) for one in sidecars]
    assert min(bound) > 1
    assert exit_code(report, 1.0) == 0


async def test_the_files_of_a_run_can_be_read_again(tmp_path: Path) -> None:
    """HDR logs with the same count and percentiles; a page that loads nothing and escapes what it shows."""
    report, _ = await measured(tmp_path)
    logs = {one.stem: one for one in write_logs(report, tmp_path / "hdr")}
    whole = HdrHistogram(1, 24 * 3600 * 1_000_000, 3)
    reader = HistogramLogReader(str(logs["whole_since_due"]), whole)
    while reader.add_next_interval_histogram():
        pass
    reader.close()
    found = as_json(report)
    found["run"]["scenario"] = "<script>alert(1)</script>"

    earlier = deepcopy(found)
    name = next(iter(found["latency_us"]))
    earlier["latency_us"] = {name: {"p50": 1_000, "p99": 8_000}}
    found["latency_us"][name] |= {"p50": 2_000, "p99": 2_000}
    earlier["operations"]["per_second_without_error"] = 100.0
    found["operations"]["per_second_without_error"] = 75.0

    page = page_of(found, earlier)

    assert whole.get_total_count() == 24
    assert whole.get_value_at_percentile(50) == pytest.approx(report.tally.whole.percentile(50) * 1e6, rel=0.01)
    assert "<script" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert page.count("<svg") == 3
    assert compared(page) == [
        ("operations / s", "100.00", "75.00", "bad", "-25.0%"),
        (f"{name} p50, ms", "1.00", "2.00", "bad", "+100.0%"),
        (f"{name} p99, ms", "8.00", "2.00", "good", "-75.0%"),
    ]
    Balanced().check(page)


def compared(page: str) -> list[tuple[str, ...]]:
    """Return the rows of the comparison of two runs: what, earlier, now, whether it is worse, the change."""
    _, _, table = page.partition("<h2>Compared with the earlier run</h2>")
    rows = re.findall(r'<td>([^<]*)<td>([^<]*)<td>([^<]*)<td class="(\w*)">([^<]*)', table)
    return [tuple(each.strip() for each in row) for row in rows]


def test_a_log_counts_each_operation_also_if_several_took_the_same_time(tmp_path: Path) -> None:
    """Three of 5 ms and one of 7 ms."""
    tally = Tally()
    for milliseconds in (5, 5, 5, 7):
        tally.note(Sample(1.0, 1.0, 1.0 + milliseconds / 1000, True, Finished()))
    load = Load(rate=None, in_flight=1, seconds=1)
    report = Report(Plan("x", [Target("unix:/x")], [Mix()], [load]), tally, [Progress()])
    whole = HdrHistogram(1, 24 * 3600 * 1_000_000, 3)
    log = next(one for one in write_logs(report, tmp_path) if one.stem == "whole_since_due")
    reader = HistogramLogReader(str(log), whole)
    reader.add_next_interval_histogram()
    reader.close()
    assert (whole.get_total_count(), whole.get_count_at_value(5000), whole.get_count_at_value(7000)) == (4, 3, 1)


class Watched(AsyncRpcs):
    """Notes the pauses instead of making them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.pauses: list[float] = []

    async def pause(self, seconds: float) -> None:
        """Note it."""
        self.pauses.append(seconds)


async def test_a_slow_reader_pauses_after_each_frame() -> None:
    """Two frames of a dispatch, with the pause that the scenario says."""
    async with served(LyingSidecar()) as target, grpc.aio.insecure_channel(target) as channel:
        rpcs = Watched(channel, target, ())
        await Turns([Connection(target, [rpcs])], [Mix(slow_reader=0.25)], 1, "run").carry_out(0)
    assert rpcs.pauses == [0.25, 0.25]


@pytest.mark.parametrize("way", ["resume", "reconnect"])
async def test_a_reconnect_resumes_over_another_connection(way: str) -> None:
    """And a resume over the same."""
    servicer = LyingSidecar()
    async with served(servicer, over_tcp=True) as target, grpc.aio.insecure_channel(target) as channel:
        mix = Mix(resume=float(way == "resume"), reconnect=float(way == "reconnect"))
        turns = Turns([Connection(target, [AsyncRpcs(channel, target, ())])], [mix], 1, "run")
        finished = await turns.carry_out(0)
    assert (finished.errors, finished.violations, finished.outcomes) == ([], [], ["SUCCEEDED"])
    assert len(servicer.resumed_by) == 1
    assert (servicer.resumed_by == servicer.peers) is (way == "resume")


class Balanced(HTMLParser):
    """Finds elements that are opened and never closed, of those that have to be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Open one."""
        if tag in {"svg", "table", "style", "title", "div", "h1", "h2"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close one."""
        if tag in {"svg", "table", "style", "title", "div", "h1", "h2"}:
            assert self.open.pop() == tag

    def check(self, page: str) -> None:
        """Look at a page."""
        self.feed(page)
        assert self.open == []


@pytest.mark.parametrize(
    ("bound", "code"),
    [("throughput: '> 0'", 0), ("throughput: '> 1000000'", 1), ("cancel.p99: '< 1s'", 1), ("reason.X: '<= 0'", 0)],
)
async def test_thresholds_decide_the_exit_code(tmp_path: Path, bound: str, code: int) -> None:
    """Also one about something that was never measured; text, JSON and page say which one was broken."""
    async with served(LyingSidecar()) as target:
        path = tmp_path / "load.yaml"
        path.write_text(
            f"targets: [{{target: '{target}'}}]\nstages: [{{duration: 1m, in_flight: 1, requests: 3}}]\n"
            f"thresholds: {{{bound}}}\n"
        )
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "subagents_loadgen", "--file", str(path)),
            *("--json-file", str(tmp_path / "run.json"), "--html", str(tmp_path / "run.html")),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await program.communicate()

    assert program.returncode == code
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["thresholds"][0]["kept"] is (code == 0)
    assert (b"BROKEN: " in output) is (code == 1)
    assert (">broken<" in (tmp_path / "run.html").read_text()) is (code == 1)


def test_a_file_to_compare_with_that_is_none_is_told_before_the_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour of load must not end with it."""
    (tmp_path / "old.json").write_text('{"format": 1}')
    given = ["--target", "unix:/nowhere", "--in-flight", "1", "--compare", str(tmp_path / "old.json")]
    assert main(given) == 3
    assert "expected JSON of format 2" in capsys.readouterr().err


@pytest.mark.parametrize(("lost_binds", "failed_ends"), [(2, 0), (0, 2), (1, 1)])
async def test_turns_that_an_operation_could_not_end_are_ended_afterwards(lost_binds: int, failed_ends: int) -> None:
    """A turn whose bind was not answered is bound again, so that it can be ended."""
    servicer = Forgetful(lost_binds, failed_ends)
    async with served(servicer) as target:
        report = await run(understood(["--target", target, "--in-flight", "1", "--requests", "4", "--warm-up", "0s"]))
    assert report.tally.failed.count == 2
    assert report.left_open == 0
    assert len([one for one in servicer.ended if "probe" not in one]) == 4


async def test_turns_that_cannot_be_ended_are_told() -> None:
    """The report says how many."""
    servicer = Forgetful(0, 100)
    async with served(servicer) as target:
        report = await run(understood(["--target", target, "--in-flight", "1", "--requests", "3", "--warm-up", "0s"]))
    assert report.left_open == 3
    assert any("3 turns could not be ended" in one for one in report.warnings())


async def test_locust_runs_the_same_scenario(tmp_path: Path) -> None:
    """The real program without its web page: two users, twelve turns, no failure, and nothing left open."""
    async with running_sidecar_for_tests() as sidecar:
        path = scenario(tmp_path, sidecar)
        shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
        assert '"examples/load.yaml"' in shown
        (tmp_path / "locustfile.py").write_text(shown.replace('"examples/load.yaml"', f"{str(path)!r}, most_turns=12"))
        program = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("locust")), "-f", str(tmp_path / "locustfile.py"), "--headless"),
            *("-u", "2", "-r", "2", "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, errors = await program.communicate()
        ended = len(sidecar.recorder.of("turn_routed"))

    assert program.returncode == 0, errors.decode()
    requests = {one["name"]: one for one in json.loads(output)}
    assert sum(one["num_requests"] for name, one in requests.items() if name.endswith(": end")) == ended == 12
    assert {name.split(":")[0] for name in requests} == {"single", "slow", "moving", "unary"}
    assert [one["num_failures"] for one in requests.values() if one["num_failures"]] == []
