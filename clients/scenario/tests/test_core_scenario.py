"""One conversation, played by every client against a real sidecar, gives the same lines everywhere."""

import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.core_scenario import Stage, staged
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement
from tests.support.typescript_package import REPOSITORY, installed_project, ran

HERE: Final = REPOSITORY / "clients" / "scenario"
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
    "question call-6 NEEDS_APPROVAL Redeem 300 points?",
    "ended shop failed",
    "ended rewards failed",
    "ended support completed",
    "ended shop failed",
    "ended support completed",
    "ended rewards completed",
    "gate failed",
    "bound ask_shop,ask_rewards,ask_support cap 3",
    "outcome call-7 SUCCEEDED - Redeemed: points of user-1.",
    "ended rewards completed",
    "gate passed",
]


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
    """Generated and compiled with Debian's packages; the first run of a user compiles gRPC, which takes a while."""
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
        "GOFLAGS": "",
    }
    await ran(folder, "go", "build", "-o", "scenario", "main.go", **go)
    async with staged() as stage:
        lines = await play(stage, folder, "./scenario", *stage.arguments)
    assert lines == EXPECTED
    assert stage.cable.connections == 2
