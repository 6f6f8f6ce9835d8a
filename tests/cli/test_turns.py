"""`sidecar turns`, `sidecar turn` and `sidecar episodes`, against a sidecar on a real socket."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.record.client import RecordExit, SidecarAddress
from sidecar.cli.record.turn_commands import CallEnd
from sidecar.cli.record.turn_views import (
    EpisodeOptions,
    TurnCommands,
    TurnOptions,
    TurnsOptions,
    show_episode,
    show_episodes,
    show_turn,
    show_turns,
)
from sidecar.core.dispatching.outcomes import Outcome
from tests.support.fake_runner import answers, hangs, raises
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.requirement import requirement

ROOT = Path(__file__).parents[2]


def where(sidecar: SidecarForTests) -> SidecarAddress:
    """Return where a sidecar listens, with its secret in a file."""
    file = sidecar.folder / "boot-secret"
    file.write_text(SECRET)
    return SidecarAddress(sidecar.dispatch_target, file)


class Heard(StringIO):
    """Output that says when its first line is there; written to from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def flush(self) -> None:
        """Say so."""
        self._loop.call_soon_threadsafe(self.begun.set)


async def run(
    at: SidecarAddress, show: Callable[..., int], *arguments: Any, out: StringIO | None = None, **named: Any
) -> tuple[int, str, str]:
    """Run a command as it would run elsewhere; return exit code, output and errors."""
    out, errors = out or StringIO(), StringIO()
    code = await asyncio.to_thread(show, TurnCommands(at, out, errors, {}), *arguments, **named)
    return code, out.getvalue(), errors.getvalue()


async def a_turn(sidecar: SidecarForTests, turn_id: str, *tools: str, **fields: Any) -> None:
    """Have a turn."""
    bound = await sidecar.bind(turn_id=turn_id, **fields)
    if tools:
        await sidecar.dispatch(bound, *tools)
    await sidecar.end(bound, narration="Here you are.", user_message="Any offers?")


async def test_turns_are_listed_as_a_table() -> None:
    """Newest first, with a header; filters and the limit hold."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", raises(ValueError("x")))
        await a_turn(sidecar, "t-1", "ask_shop", "ask_rewards")
        await a_turn(sidecar, "t-2", episode_id="e-2")
        at = where(sidecar)
        code, out, _ = await run(at, show_turns, TurnsOptions())
        _, filtered, _ = await run(at, show_turns, TurnsOptions(slot="shop", state="ended"))
        _, one, _ = await run(at, show_turns, TurnsOptions(limit=1))
        _, none, _ = await run(at, show_turns, TurnsOptions(state="lost"))
        narrow = TurnsOptions(user="user-1", outcome="failed", definition="rewards", since="2h ago")
        _, narrowed, _ = await run(at, show_turns, narrow)
        wrong = await run(at, show_turns, TurnsOptions(since="soon"))

    header, first, second = out.splitlines()
    assert code == RecordExit.OK
    assert header.split() == ["when", "(UTC)", "turn", "episode", "state", "slots", "children", "failed", "took"]
    assert first.split()[2:7] == ["t-2", "e-2", "ended", "-", "0"]
    assert second.split()[2:8] == ["t-1", "episode-1", "ended", "shop,rewards", "2", "1"]
    assert [line.split()[2] for line in filtered.splitlines()[1:]] == ["t-1"]
    assert [line.split()[2] for line in one.splitlines()[1:]] == ["t-2"]
    assert none == "no such turn is on record\n"
    assert [line.split()[2] for line in narrowed.splitlines()[1:]] == ["t-1"]
    assert (wrong[0], wrong[2]) == (
        RecordExit.USAGE,
        "--since: 'soon' is no time; write 10m, 2h ago, or e.g. 2026-11-22T14:05:00Z\n",
    )


async def test_turns_are_found_by_the_reason_of_a_failure() -> None:
    """In any writing, together with other filters; a reason that does not exist is refused."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", raises(ValueError("x")))
        for turn_id, *tools in (("t-1", "ask_rewards"), ("t-2", "ask_shop"), ("t-3", "ask_rewards"), ("t-4",)):
            await a_turn(sidecar, turn_id, *tools)
        at = where(sidecar)
        _, found, _ = await run(at, show_turns, TurnsOptions(reason="RUNNER_FAILED"))
        _, one, _ = await run(at, show_turns, TurnsOptions(reason="RUNNER_FAILED", limit=1))
        _, none, _ = await run(at, show_turns, TurnsOptions(reason="RUNNER_FAILED", slot="shop"))
        wrong = await run(at, show_turns, TurnsOptions(reason="TIRED"))

    assert [line.split()[2] for line in found.splitlines()[1:]] == ["t-3", "t-1"]
    assert [line.split()[2] for line in one.splitlines()[1:]] == ["t-3"]
    assert none == "no such turn is on record\n"
    assert (wrong[0], wrong[2]) == (
        RecordExit.USAGE,
        "--reason: no call ends with TIRED; docs/errors.md lists the reasons of calls\n",
    )


async def test_more_turns_than_a_page_are_listed_too() -> None:
    """205 turns; a page has 200 at most."""
    async with running_sidecar_for_tests() as sidecar:
        for number in range(205):
            await a_turn(sidecar, f"t-{number}")
        code, out, _ = await run(where(sidecar), show_turns, TurnsOptions(limit=1000, as_json=True))

    assert code == RecordExit.OK
    assert [row["turn_id"] for row in json.loads(out)] == [f"t-{number}" for number in reversed(range(205))]


@requirement("SX-39", "SX-40")
async def test_a_turn_is_shown_with_every_event_of_every_child() -> None:
    """Condensed, expanded and as JSON: the same events, with their summaries; details only where they are asked for."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("Two offers."))
        await a_turn(sidecar, "t-1", "ask_shop", "ask_rewards")
        at = where(sidecar)
        _, condensed, _ = await run(at, show_turn, TurnOptions("t-1"))
        _, expanded, _ = await run(at, show_turn, TurnOptions("t-1", expand=True))
        _, text, _ = await run(at, show_turn, TurnOptions("t-1", as_json=True))
        turn = json.loads(text)
        second = turn["children"][1]["child_id"]
        _, one, _ = await run(at, show_turn, TurnOptions("t-1", children=(second,)))
        _, lines, _ = await run(at, show_turn, TurnOptions("t-1", children=(second,), follow=True, as_json=True))

    assert [child["sub_agent_id"] for child in turn["children"]] == ["shop", "rewards"]
    for child in turn["children"]:
        assert child["contract"]["parent"]["run_id"] == "t-1"
        for event in child["events"]:
            assert f"{event['actor']:<10} {event['summary']}" in condensed
            assert isinstance(event["details"], dict)
    assert turn["routing_decision"]["turn_id"] == "t-1"
    assert "final_status" not in condensed
    assert '"final_status": "completed"' in expanded
    assert "0 shop " not in one
    assert {json.loads(line)["child_id"] for line in lines.splitlines()} == {second}
    assert "1 rewards " in one


async def test_a_turn_is_followed_until_it_has_ended() -> None:
    """Lines while it runs, in any number of pieces; at the end a bar for each child."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind(turn_id="t-1")
        running = sidecar.stub.Dispatch(sidecar.dispatch_request(bound, "ask_shop"), metadata=sidecar.metadata)
        await sidecar.runner.until_started("shop")
        at = where(sidecar)
        text, json_lines = Heard(), Heard()
        as_text = asyncio.create_task(run(at, show_turn, TurnOptions("t-1", follow=True), out=text))
        as_lines = asyncio.create_task(
            run(at, show_turn, TurnOptions("t-1", follow=True, as_json=True), out=json_lines)
        )
        await asyncio.gather(text.begun.wait(), json_lines.begun.wait())
        running.cancel()
        await sidecar.end(bound)
        code, out, _ = await as_text
        _, lines, _ = await as_lines
        _, afterwards, _ = await run(at, show_turn, TurnOptions("t-1"))

    names = [json.loads(line)["name"].removeprefix("agent.subagent_") for line in lines.splitlines()]
    live, _, bars = out.partition("\n\n")
    assert code == RecordExit.OK
    assert names[:2] == ["created", "started"]
    assert names[-2:] == ["failed", "closed"]
    assert [line.split()[3] for line in live.splitlines()] == names
    assert "turn t-1  ended" in bars
    assert "failed" in bars.splitlines()[-1]
    # The label in front has 20 columns: what follows, with the seconds, is as in the view of the ended turn.
    assert [line.split()[2:] for line in live.splitlines()] == [
        line.split() for line in afterwards.splitlines() if line.startswith("       +")
    ]


async def test_episodes_are_listed_and_read() -> None:
    """The list says whose they are; reading one shows what was said, and payloads only with `full`."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("Two offers."))
        await a_turn(sidecar, "t-1", "ask_shop")
        at = where(sidecar)
        _, out, _ = await run(at, show_episodes, 20, as_json=False)
        _, rows, _ = await run(at, show_episodes, 20, as_json=True)
        code, said, _ = await run(at, show_episode, EpisodeOptions("episode-1", "user-1", full=True))
        missing, _, errors = await run(at, show_episode, EpisodeOptions("episode-1", "user-2"))
        as_json, _, _ = await run(at, show_episode, EpisodeOptions("episode-1", "user-2", as_json=True))

    assert out.splitlines()[1].split()[2:] == ["episode-1", "user-1", "1", "shop"]
    assert json.loads(rows)[0]["turn_count"] == 1
    assert code == RecordExit.OK
    assert "user       Any offers?" in said
    assert "shop was asked: what is new?" in said
    assert "assistant  Here you are." in said
    assert (missing, as_json, "sidecar episodes" in errors) == (RecordExit.NOT_FOUND, RecordExit.NOT_FOUND, True)


async def test_a_turn_that_nobody_knows_is_answered_with_those_there_are() -> None:
    """Both with and without `follow`; before the first turn it is said that there is none."""
    async with running_sidecar_for_tests() as sidecar:
        at = where(sidecar)
        none = await run(at, show_turn, TurnOptions("t-9"))
        await a_turn(sidecar, "t-1", "ask_shop")
        some = await run(at, show_turn, TurnOptions("t-9"))
        followed = await run(at, show_turn, TurnOptions("t-9", follow=True))
        bad = await run(at, show_turn, TurnOptions("a b"))

    assert (none[0], "no turn is recorded yet" in none[2]) == (RecordExit.NOT_FOUND, True)
    for code, out, errors in (some, followed):
        assert (code, out) == (RecordExit.NOT_FOUND, "")
        assert "turn t-9 is not recorded; the newest turns: t-1;" in errors
    assert (bad[0], "turn_id" in bad[2]) == (RecordExit.USAGE, True)


async def test_errors_say_what_to_do(tmp_path: Path) -> None:
    """No sidecar, no secret file, the wrong secret, an address elsewhere: each with its exit code and a way on."""
    nowhere = SidecarAddress(f"unix:{tmp_path}/none.sock", None)
    async with running_sidecar_for_tests() as sidecar:
        right = where(sidecar)
        wrong_file = tmp_path / "secret"
        wrong_file.write_text("wrong")
        away = await run(nowhere, show_turns, TurnsOptions())
        no_file = await run(SidecarAddress(right.target, tmp_path / "gone"), show_turns, TurnsOptions())
        wrong = await run(SidecarAddress(right.target, wrong_file), show_turns, TurnsOptions())
    far = await run(SidecarAddress("sidecar.example:443", wrong_file), show_turns, TurnsOptions())

    assert away[0] == no_file[0] == RecordExit.UNAVAILABLE
    assert "sidecar serve --config" in away[2]
    assert "--boot-secret-file" in no_file[2]
    assert (wrong[0], "refused the boot secret" in wrong[2]) == (RecordExit.NOT_ALLOWED, True)
    assert (far[0], "boot secret would be sent unencrypted; forward" in far[2]) == (RecordExit.USAGE, True)
    assert SECRET not in wrong[2]


def test_turns_can_be_filtered_by_every_outcome() -> None:
    """The option has the words that the lists print."""
    assert {*CallEnd} == {*Outcome}


def test_the_page_names_every_exit_code() -> None:
    """The table of `docs/seeing-turns.md`; 78 comes from the settings."""
    page = (ROOT / "docs" / "seeing-turns.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == {*RecordExit, 78}


@pytest.mark.system
async def test_the_commands_work_from_a_shell() -> None:
    """`python -m sidecar turn`, for a turn that is there and one that is not; help names the exit codes."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "t-1", "ask_shop")
        at = where(sidecar)
        told = ("--target", at.target, "--boot-secret-file", str(at.boot_secret_file))
        shown, missing, helped = await asyncio.gather(
            typed("turn", "t-1", *told), typed("turn", "t-2", *told), typed("turns", "--help")
        )

    assert (shown[0], "turn t-1  ended" in shown[1], shown[1].isascii()) == (0, True, True)
    assert (missing[0], missing[1], "t-1" in missing[2]) == (1, "", True)
    assert "Exit codes" in helped[1]


async def typed(*arguments: str) -> tuple[int | None, str, str]:
    """Run `python -m sidecar`; return exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sidecar", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
    )
    out, errors = await process.communicate()
    return process.returncode, out.decode(), errors.decode()
