"""A turn that was exported before a change is replayed through the changed code: a changed join turns it red.

Defects are planted in a copy of the sidecar, each in place of a line. If the line has changed, plant the same anew.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest
from subagents.history.v1 import history_pb2, history_pb2_grpc
from tests.architecture.reading import REPOSITORY
from tests.support.fake_runner import ScriptedRunner, waits_for
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement

EXAMPLE = REPOSITORY / "examples" / "config"
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "outcomes-in-order-of-completion": (
        "operations/turn/state/calls.py",
        "tuple([self._outcomes[place] for place in range(len(self._request.calls))])",
        "tuple(self._outcomes.values())",
        "d: the order was call-1, call-2, call-3; it is now call-3, call-2, call-1",
    ),
    "an-answer-is-altered": (
        "core/dispatching/result_checks.py",
        'narration = "".join(self._parts)',
        'narration = " ".join(self._parts)',
        "d call-1: narration differs from character 3: was '!'; is now ' !'",
    ),
}


async def said_in_parts(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Answer in two pieces."""
    yield NarrationPart("Two")
    yield NarrationPart("!")
    yield RunFinished()


async def exported() -> str:
    """Export a turn with three calls, of which the last comes in first, and fails."""
    catalogue = load_directory(EXAMPLE).catalogue
    assert catalogue is not None
    third_is_through, second_is_through = asyncio.Event(), asyncio.Event()

    async def second(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        second_is_through.set()
        yield NarrationPart("Seven points.")
        yield RunFinished()

    async def third(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        third_is_through.set()
        yield NarrationPart("half")

    async with running_sidecar_for_tests(catalogue=catalogue) as sidecar:
        flags = [card.definition.enabled_via_flag for card in catalogue.cards.values()]
        sidecar.flags.on = [flag for flag in flags if flag]
        sidecar.runner.use("shop", waits_for(second_is_through, said_in_parts))
        sidecar.runner.use("rewards", waits_for(third_is_through, second))
        sidecar.runner.use("support", third)
        bound = await sidecar.bind(turn_id="t")
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards", "ask_support", dispatch_id="d")
        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
        request = history_pb2.ExportReplayRequest(turn_id="t")
        pieces = history_pb2_grpc.HistoryServiceStub(sidecar.channel).ExportReplay(request, metadata=sidecar.metadata)
        return "".join([piece.document_json async for piece in pieces])


def replayed_with(file: Path, root: Path, planted: tuple[str, str, str, str] | None) -> tuple[int, str]:
    """Replay in a new process, with a defect planted in a copy of the sidecar below `root`; exit code and output."""
    shutil.copytree(REPOSITORY / "sidecar", root / "sidecar", ignore=shutil.ignore_patterns("__pycache__"))
    if planted is not None:
        path, line, defect, _ = planted
        source = root / "sidecar" / path
        text = source.read_text("utf-8")
        assert text.count(line) == 1, f"{path} has changed; plant the same defect anew"
        source.write_text(text.replace(line, defect), "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "sidecar", "replay", "t", "--from", str(file), "--definitions", str(EXAMPLE)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@requirement("PC1-FR-10d", "SX-50")
@pytest.mark.system
@pytest.mark.seconds(90)
async def test_a_changed_join_turns_the_replay_red_and_an_unchanged_one_does_not(tmp_path: Path) -> None:
    """Exit code 0 with the code as it is; 1 with each of the defects, and a line that says what differs."""
    file = tmp_path / "t.json"
    await asyncio.to_thread(file.write_text, await exported(), "utf-8")
    found = {
        name: await asyncio.to_thread(replayed_with, file, tmp_path / name, planted)
        for name, planted in {"none": None, **PLANTED}.items()
    }

    assert found.pop("none") == (0, "turn t: 3 calls replayed: the same\n")
    for name, (code, output) in found.items():
        assert (name, code) == (name, 1), output
        assert PLANTED[name][3] in output
