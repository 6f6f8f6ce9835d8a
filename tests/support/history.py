"""History over its RPCs: short ways to have turns, to read an episode, to write a summary, to read own turns."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.history.compaction import CompactionRules
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, TurnHistory
from sidecar.core.identifiers import Slot
from sidecar.operations.rules import HistoryRules
from sidecar.policy.protocols import ComponentMade, NarrationPart, RunFinished, RunnerEvent, RunRequest
from sidecar.rpc.authorisation import GRANT_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.history.v1 import history_pb2, history_pb2_grpc
from subagents.tools.v1 import tools_pb2, tools_pb2_grpc
from tests.support.builders import a_card
from tests.support.fake_runner import Script, ScriptedRunner
from tests.support.harness import SidecarForTests

RENDERS: Final = {"render_offers": {"type": "object"}}
TOOL_INPUT: Final = '{"items":[{"id":"offer-1","title":"Two for one"},{"id":"offer-2"}],"analytics":{"tag":"t-9"}}'
DATA: Final = '{"cards":[{"price":"4.99","canary":"component-contents"}]}'


def rules(**compaction: int) -> dict[str, Any]:
    """Return rules of dispatching with these of compaction."""
    return {"history": HistoryRules(compaction=CompactionRules(**compaction))}


def rendering_cards() -> list[Any]:
    """Return the usual cards, which may render offers."""
    return [a_card(slot, components=RENDERS) for slot in ("shop", "rewards", "support")]


def renders(text: str) -> Script:
    """Make one component and say something."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield ComponentMade("render_offers", TOOL_INPUT, DATA)
        yield NarrationPart(text)
        yield RunFinished()

    return script


async def own_turns(sidecar: SidecarForTests, grant: str, max_turns: int = 0) -> Sequence[tools_pb2.OwnTurn]:
    """Read own turns as a runner host would."""
    answer = await tools_pb2_grpc.ToolGatewayServiceStub(sidecar.tools_channel).ReadOwnTurns(
        tools_pb2.ReadOwnTurnsRequest(max_turns=max_turns), timeout=10, metadata=((GRANT_KEY, grant),)
    )
    return list(answer.turns)


def remembers(sidecar: SidecarForTests, seen: dict[str, list[tools_pb2.OwnTurn]], text: str = "") -> Script:
    """Read own turns, keep them in `seen` by slot, and answer with the turn's id in the text."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        slot = request.card.definition.slot
        seen[slot] = list(await own_turns(sidecar, request.grant))
        yield NarrationPart(text or f"{slot} in {request.context.turn_id}")
        yield RunFinished()

    return script


async def a_turn(sidecar: SidecarForTests, *tools: str, **fields: Any) -> pb.BindTurnResponse:
    """Have a whole turn: bind, dispatch, end; `narration` and `user_message` go to its end, the rest to its bind."""
    said = {name: fields.pop(name) for name in ("narration", "user_message") if name in fields}
    bound = await sidecar.bind(**fields)
    if tools:
        await sidecar.dispatch(bound, *tools)
    await sidecar.end(bound, **said)
    return bound


async def episode_of(sidecar: SidecarForTests, **fields: Any) -> history_pb2.ReadEpisodeResponse:
    """Read `episode-1` of `user-1`, or what the fields say."""
    request = history_pb2.ReadEpisodeRequest(**({"episode_id": "episode-1", "principal": "user-1"} | fields))
    stub = history_pb2_grpc.HistoryServiceStub(sidecar.channel)
    return await stub.ReadEpisode(request, timeout=10, metadata=sidecar.metadata)


async def write_summary(sidecar: SidecarForTests, up_to: str, expected: int = 0, **fields: Any) -> Any:
    """Write a summary of `episode-1` of `user-1`."""
    given: dict[str, Any] = {"episode_id": "episode-1", "principal": "user-1", "text": "They talked about shoes."}
    request = history_pb2.WriteSummaryRequest(
        **(given | {"up_to_turn_id": up_to, "expected_revision": expected} | fields)
    )
    stub = history_pb2_grpc.HistoryServiceStub(sidecar.channel)
    return await stub.WriteSummary(request, timeout=10, metadata=sidecar.metadata)


class MemoryThatCanBeAway(InProcessMemory):
    """Hangs, fails or gives what belongs to others, as a test says.

    Attributes:
        gate: everything waits for it.
        keeping: appends wait for it.
        away: everything fails.
        intruder: what `own_turns` gives as well.
    """

    def __init__(self) -> None:
        """Begin well."""
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.keeping = asyncio.Event()
        self.keeping.set()
        self.away = False
        self.intruder: tuple[OwnTurn, ...] = ()

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep a turn, if that can be done."""
        await self.keeping.wait()
        await self._reached()
        return await super().append(turn)

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return the size, if that can be done."""
        await self._reached()
        return await super().size(episode)

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Read, if that can be done."""
        await self._reached()
        return await super().read(episode, most_turns)

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Give own turns, and those of the intruder."""
        await self._reached()
        return (*await super().own_turns(episode, slot, most), *self.intruder)

    async def _reached(self) -> None:
        await self.gate.wait()
        if self.away:
            raise ConnectionError("the memory is away, says user-1's secret")
