"""Plays the script: sets the trouble of each scene, holds the turn, checks what came of it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.consumer_agent.agent import Conversation, TurnStory, User
from examples.demo.checks import Evidence, deviations
from examples.demo.environment import DemoEnvironment, faulty_answers, metric, set_fault
from examples.demo.screen import Screen
from examples.demo.script import SCENES, PlannedFault, ScriptedTurn
from examples.demo.sidecar_settings import ADA, DEPLOYMENT
from examples.demo.timeline import turn_lines

KIM: Final = User(principal="user-kim", episode_id="episode-demo", locale="en-US", location="Chicago, IL")
MISMATCHES: Final = "ps6_envelope_principal_mismatch_total"
WRONG_PRINCIPAL: Final = "wrong_principal"


@dataclass(frozen=True, slots=True)
class Played:
    """A scene and what came of it; `deviations` is empty if it went by the script."""

    scene: ScriptedTurn
    story: TurnStory
    deviations: Sequence[str]


class ScriptRunner:
    """Plays scenes on a stage.

    Args:
        stage: where everything runs.
        screen: what is shown.
        canary: text in the data that belongs to somebody else; it must show up nowhere.
    """

    def __init__(self, stage: DemoEnvironment, screen: Screen, canary: str) -> None:
        self._stage = stage
        self._screen = screen
        self._canary = canary

    async def play(self, conversation: Conversation, played: list[Played]) -> None:
        """Play every scene in one conversation; each is added to `played` as soon as it is over.

        Raises:
            SubagentsError: the sidecar could not bind or end a turn.
            Exception: whatever a model's provider raises.
        """
        for number, scene in enumerate(SCENES, 1):
            self._screen.rule(f"{number} of {len(SCENES)} · {scene.title}")
            self._screen.aside(scene.watch, "italic")
            played.append(await self._play(conversation, scene))
            await self._screen.pause(1.6)

    async def _play(self, conversation: Conversation, scene: ScriptedTurn) -> Played:
        before = await self._counts()
        shown = await metric(self._stage, MISMATCHES)
        async with self._trouble(scene.trouble):
            await self._screen.pause(1.0)
            await self._screen.say("kim", scene.says, "blue", typed=True)
            story = await conversation.turn(scene.says)
        after = await self._counts()
        if scene.trouble is PlannedFault.SOMEBODY_ELSES_DATA:
            after = await self._counts_after(before[0])
            self._screen.aside(f"/metrics before: {shown}", "yellow")
            self._screen.aside(f"/metrics after:  {await metric(self._stage, MISMATCHES)}", "bold yellow")
        evidence = Evidence(self._screen.status_lines, after[0] - before[0], after[1] - before[1])
        wrong = list(deviations(scene, story, evidence))
        for one in wrong:
            self._screen.aside(f"NOT AS SCRIPTED: {one}", "bold red")
        return Played(scene, story, wrong)

    async def _counts(self) -> tuple[int, int]:
        """Return what the sidecar counted as mismatches, and what the data service answered wrongly."""
        line = await metric(self._stage, MISMATCHES)
        counted = int(float(line.rpartition(" ")[2])) if line else -1
        return counted, await faulty_answers(self._stage, WRONG_PRINCIPAL)

    async def _counts_after(self, mismatches: int) -> tuple[int, int]:
        """Read the counts until `mismatches` is outdated, for three seconds: the page is made once a second at most."""
        after = await self._counts()
        for _ in range(30):
            if after[0] != mismatches:
                break
            await asyncio.sleep(0.1)
            after = await self._counts()
        return after

    @contextlib.asynccontextmanager
    async def _trouble(self, trouble: PlannedFault) -> AsyncIterator[None]:
        broken = self._stage.broken_file("rewards")
        if trouble is PlannedFault.REWARDS_RAISES:
            self._screen.aside("(behind the scenes: the rewards sub-agent now raises an exception)", "red")
            broken.touch()
        elif trouble is PlannedFault.SOMEBODY_ELSES_DATA:
            self._screen.aside("(behind the scenes: the data service now answers with another user's points)", "red")
            fault = {"kind": WRONG_PRINCIPAL, "enricher_id": "points_balance", "times": 1, "canary": self._canary}
            await set_fault(self._stage, fault)
        try:
            yield
        finally:
            broken.unlink(missing_ok=True)


def epilogue(screen: Screen, played: Sequence[Played]) -> None:
    """Show what was recorded of every turn."""
    screen.rule("what the sidecar recorded")
    screen.aside("A bar for each sub-agent from its start to its outcome, and below it the turn's routing decision.")
    for number, one in enumerate(played, 1):
        screen.line()
        for line in turn_lines(number, one.scene.title, one.story.end.routing_decision):
            screen.row(line)


def try_it(stage: DemoEnvironment) -> Iterator[str]:
    """Yield commands that work as long as the stage stands."""
    socket = stage.sidecar.removeprefix("unix:")
    turn = '{"turn_id": "turn-1", "episode_id": "by-hand", "principal": "user-kim", "source": "TURN_SOURCE_CHAT"}'
    yield "# what is counted"
    yield f"curl -s http://{stage.ops}/metrics | grep -v '^#'"
    yield "# bind a turn by hand (buf is in .venv/bin after `make check`)"
    yield (
        f"buf curl --protocol grpc --http2-prior-knowledge --unix-socket {socket} --reflect --reflect-header '*' "
        f'-H "x-subagents-boot-secret: $(cat {stage.boot_secret_file})" '
        f"-d '{turn}' http://sidecar/subagents.dispatch.v1.DispatchService/BindTurn"
    )
    sidecar = Path(sys.executable).parent / "sidecar"
    yield "# operate it: list, show, history, explain … (the token lasts a quarter of an hour)"
    yield (
        f"SIDECAR_TARGET={stage.operators} SIDECAR_ROLE_TOKEN=$({sidecar} token mint --key {stage.operator_key} "
        f"--role operator --subject {ADA} --deployment {DEPLOYMENT}) {sidecar} subagent list"
    )
    yield "# what the data service was asked, and what the gate service was asked and answered"
    yield f"curl -s {stage.data_service}/admin/calls"
    yield f"cat {stage.gate_log}"
    yield "# the log, with the routing decisions"
    yield f"tail -f {stage.folder}/sidecar.log"
