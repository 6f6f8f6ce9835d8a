"""Plays the script: injects the fault of each turn, runs the turn and checks the result."""

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
from examples.demo.script import PlannedFault, ScriptedTurn
from examples.demo.sidecar_settings import ADA, DEPLOYMENT
from examples.demo.timeline import turn_lines

KIM: Final = User(principal="user-kim", episode_id="episode-demo", locale="en-US", location="Chicago, IL")
MISMATCHES: Final = "ps6_envelope_principal_mismatch_total"
WRONG_PRINCIPAL: Final = "wrong_principal"


@dataclass(frozen=True, slots=True)
class Played:
    """A turn of the script and its result. `deviations` is empty if the turn followed the script."""

    scene: ScriptedTurn
    story: TurnStory
    deviations: Sequence[str]


class ScriptRunner:
    """Plays the turns of the script.

    Args:
        stage: the running processes.
        screen: shows the turns.
        canary: text in the data of another user, which must not appear anywhere.
    """

    def __init__(self, stage: DemoEnvironment, screen: Screen, canary: str) -> None:
        self._stage = stage
        self._screen = screen
        self._canary = canary

    async def play(self, conversation: Conversation, scenes: Sequence[ScriptedTurn], played: list[Played]) -> None:
        """Play turns in one conversation. Each is added to `played` when it ends, so that a failure keeps the others.

        Raises:
            SubagentsError: the sidecar could not bind or end a turn.
            Exception: whatever a model's provider raises.
        """
        previous: frozenset[str] = frozenset()
        for number, scene in enumerate(scenes, 1):
            self._screen.rule(f"conversation {number} of {len(scenes)} · {scene.title}")
            self._screen.aside(scene.watch, "italic")
            slots = frozenset(slot for slot, _ in scene.calls)
            played.append(await self._play(conversation, scene, switched=bool(previous and slots - previous)))
            previous = slots or previous
            await self._screen.pause(1.6)

    async def _play(self, conversation: Conversation, scene: ScriptedTurn, *, switched: bool) -> Played:
        before = await self._counts()
        shown = await metric(self._stage, MISMATCHES)
        async with self._injected(scene.fault):
            await self._screen.pause(1.0)
            await self._screen.say("kim", scene.says, "blue", typed=True)
            story = await conversation.turn(scene.says)
        after = await self._counts()
        if scene.fault is PlannedFault.WRONG_PRINCIPAL:
            after = await self._counts_after(before[0])
            self._screen.aside(f"/metrics before: {shown}", "yellow")
            self._screen.aside(f"/metrics after:  {await metric(self._stage, MISMATCHES)}", "bold yellow")
        evidence = Evidence(self._screen.status_lines, after[0] - before[0], after[1] - before[1])
        found = list(deviations(scene, story, evidence, switched=switched))
        for one in found:
            self._screen.aside(f"NOT AS SCRIPTED: {one}", "bold red")
        return Played(scene, story, found)

    async def _counts(self) -> tuple[int, int]:
        """Return the mismatches that the sidecar counted, and the wrong answers that the data service gave."""
        line = await metric(self._stage, MISMATCHES)
        counted = int(float(line.rpartition(" ")[2])) if line else -1
        return counted, await faulty_answers(self._stage, WRONG_PRINCIPAL)

    async def _counts_after(self, mismatches: int) -> tuple[int, int]:
        """Read the counts until they exceed `mismatches`, for at most three seconds.

        The sidecar renders its metrics page at most once a second, so the first read may be outdated.
        """
        after = await self._counts()
        for _ in range(30):
            if after[0] != mismatches:
                break
            await asyncio.sleep(0.1)
            after = await self._counts()
        return after

    @contextlib.asynccontextmanager
    async def _injected(self, fault: PlannedFault) -> AsyncIterator[None]:
        broken = self._stage.broken_file("rewards")
        if fault is PlannedFault.REWARDS_RAISES:
            self._screen.aside("(the demo makes the rewards sub-agent raise an exception)", "red")
            broken.touch()
        elif fault is PlannedFault.WRONG_PRINCIPAL:
            self._screen.aside("(the demo makes the data service answer with another user's points)", "red")
            switch = {"kind": WRONG_PRINCIPAL, "enricher_id": "points_balance", "times": 1, "canary": self._canary}
            await set_fault(self._stage, switch)
        try:
            yield
        finally:
            broken.unlink(missing_ok=True)


def epilogue(screen: Screen, played: Sequence[Played]) -> None:
    """Show the record of every turn."""
    screen.rule("what the sidecar recorded")
    screen.aside("A bar for each sub-agent from its start to its outcome, and below it the turn's routing decision.")
    for number, one in enumerate(played, 1):
        screen.line()
        for line in turn_lines(number, one.scene.title, one.story.end.routing_decision):
            screen.row(line)


def try_it(stage: DemoEnvironment) -> Iterator[str]:
    """Yield commands that work while the demo keeps running."""
    socket = stage.sidecar.removeprefix("unix:")
    turn = '{"turn_id": "turn-1", "episode_id": "by-hand", "principal": "user-kim", "source": "TURN_SOURCE_CHAT"}'
    yield "# metrics"
    yield f"curl -s http://{stage.ops}/metrics | grep -v '^#'"
    yield "# bind a turn by hand (buf is in .venv/bin after `make check`)"
    yield (
        f"buf curl --protocol grpc --http2-prior-knowledge --unix-socket {socket} --reflect --reflect-header '*' "
        f'-H "x-subagents-boot-secret: $(cat {stage.boot_secret_file})" '
        f"-d '{turn}' http://sidecar/subagents.dispatch.v1.DispatchService/BindTurn"
    )
    sidecar = Path(sys.executable).parent / "sidecar"
    yield "# operate it: list, show, history, explain … (the token is valid for 15 minutes)"
    yield (
        f"SIDECAR_TARGET={stage.operators} SIDECAR_ROLE_TOKEN=$({sidecar} token mint --key {stage.operator_key} "
        f"--role operator --subject {ADA} --deployment {DEPLOYMENT}) {sidecar} subagent list"
    )
    yield "# requests to the data service, and decisions of the gate service"
    yield f"curl -s {stage.data_service}/admin/calls"
    yield f"cat {stage.gate_log}"
    yield "# the log, with the routing decisions"
    yield f"tail -f {stage.folder}/sidecar.log"
