"""One conversation, played by every client against a real sidecar, gives the same lines everywhere."""

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from clients.python.tests.support.cable import Cable, cable
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerError, RunnerEvent, RunRequest, StatusReported
from tests.support.builders import a_card, with_limits
from tests.support.fake_runner import ScriptedRunner, hangs
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement
from tests.support.typescript_package import REPOSITORY, installed_project, ran

HERE: Final = REPOSITORY / "clients" / "scenario"
SCENARIO: Final = HERE / "core.json"
DEBIAN_GO: Final = Path("/usr/share/gocode")
EXPECTED: Final = [
    "bound ask_shop,ask_rewards,ask_support cap 3",
    "status searching_offers support",
    "cut",
    "status working support",
    "outcome call-1 FAILED RUNNER_FAILED The assistant could not answer this time.",
    "outcome call-2 FAILED ATTEMPT_TIMEOUT The assistant took too long and gave no answer.",
    "outcome call-3 SUCCEEDED - Your parcel arrives tomorrow.",
    "status working shop",
    "cancelled call-4 true",
    "outcome call-4 FAILED CALL_CANCELLED The request was cancelled before there was an answer.",
    "outcome call-5 SUCCEEDED - We open at nine.",
    "ended shop failed",
    "ended rewards failed",
    "ended support completed",
    "ended shop failed",
    "ended support completed",
    "gate failed",
]


@dataclass
class Stage:
    """What a runner is given, and what it is cut off by."""

    sidecar: SidecarForTests
    front: Path
    secret: Path
    control: Path
    cable: Cable

    @property
    def arguments(self) -> tuple[str, ...]:
        """What every runner is given."""
        return str(SCENARIO), str(self.front), str(self.secret), str(self.control)


def sub_agents(sidecar: SidecarForTests, cut: asyncio.Event) -> None:
    """Let the sub-agents do what the scenario is about."""
    asked: Counter[str] = Counter()

    async def shop(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        asked["shop"] += 1
        if asked["shop"] == 1:
            raise RunnerError("the shelves fell over")
        yield StatusReported("comparing_prices")  # which the policy turns into `working`
        await asyncio.Event().wait()

    async def support(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        asked["support"] += 1
        if asked["support"] == 1:
            yield StatusReported("searching_offers")
            await cut.wait()
            yield StatusReported("comparing_prices")
        yield NarrationPart("Your parcel arrives tomorrow." if asked["support"] == 1 else "We open at nine.")
        yield RunFinished()

    sidecar.runner.use("shop", shop)
    sidecar.runner.use("rewards", hangs())
    sidecar.runner.use("support", support)


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Start a sidecar behind a cable that a runner can have cut."""
    cards = [
        a_card("shop"),
        with_limits(a_card("rewards"), attempt_timeout=timedelta(milliseconds=300)),
        a_card("support"),
    ]
    async with running_sidecar_for_tests(cap=3, cards=cards) as sidecar:
        cut = asyncio.Event()
        sub_agents(sidecar, cut)
        front, secret, control = (sidecar.folder / name for name in ("front.sock", "secret", "control.sock"))
        secret.write_text(SECRET)
        async with cable(front, sidecar.folder / "dispatch.sock") as laid:

            async def on_control(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                laid.cut()
                cut.set()
                writer.close()

            server = await asyncio.start_unix_server(on_control, control)
            try:
                yield Stage(sidecar, front, secret, control, laid)
            finally:
                server.close()


async def play(stage: Stage, folder: Path, *command: str, **environment: str) -> list[str]:
    """Run a runner and return its lines."""
    return (await ran(folder, *command, **environment)).splitlines()


@requirement("PC2-FR-8a")
@pytest.mark.parametrize("way", [[], ["--plain"]], ids=["lane", "plain"])
@pytest.mark.system
async def test_the_python_sdk_plays_it(way: list[str], tmp_path: Path) -> None:
    """Over a lane and over plain RPCs."""
    async with staged() as stage:
        lines = await play(stage, tmp_path, sys.executable, str(HERE / "run.py"), *stage.arguments, *way)
    assert lines == EXPECTED
    assert stage.cable.connections == 2
    assert (stage.sidecar.lane_counts.operations.total() > 0) == (not way)


@pytest.mark.parametrize("way", [[], ["--plain"]], ids=["lane", "plain"])
@pytest.mark.system
@pytest.mark.seconds(180)
async def test_the_typescript_client_plays_it(way: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """As a package that was installed into an empty project."""
    project = await installed_project(tmp_path_factory)
    shutil.copy(HERE / "run.mjs", project)
    async with staged() as stage:
        lines = await play(stage, project, "node", "run.mjs", *stage.arguments, *way)
    assert lines == EXPECTED
    assert stage.cable.connections == 2
    assert (stage.sidecar.lane_counts.operations.total() > 0) == (not way)


@pytest.mark.system
@pytest.mark.seconds(300)
async def test_go_code_from_the_protos_alone_plays_it(tmp_path: Path) -> None:
    """Generated and compiled with Debian's packages; the first run compiles gRPC, which takes a while."""
    needs_tool("go", package="golang-go")
    needs_tool("protoc-gen-go", package="protoc-gen-go-1-5")
    if not (DEBIAN_GO / "src/google.golang.org/grpc").exists():
        pytest.skip("missing library: gRPC for Go (Debian package golang-google-grpc-dev)")
    shutil.copytree(REPOSITORY / "proto", tmp_path / "proto", ignore=shutil.ignore_patterns("python"))
    shutil.copytree(HERE / "go", tmp_path / "clients/scenario/go")
    folder = tmp_path / "clients/scenario/go"
    await ran(folder, "buf", "generate")
    go = {
        "GO111MODULE": "off",
        "GOPATH": f"{folder}:{DEBIAN_GO}",
        "GOCACHE": str(REPOSITORY / ".pytest_cache" / "go"),
        "GOFLAGS": "",
    }
    await ran(folder, "go", "build", "-o", "scenario", "main.go", **go)
    async with staged() as stage:
        lines = await play(stage, folder, "./scenario", *stage.arguments)
    assert lines == EXPECTED
    assert stage.cable.connections == 2
