"""What is on record, read through HistoryService: short ways for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import history_pb2_grpc, record_pb2
from tests.support.harness import SidecarForTests

HISTORY = "/subagents.history.v1.HistoryService/"


def stub(sidecar: SidecarForTests) -> history_pb2_grpc.HistoryServiceStub:
    """Return the stub of the consumer-agent."""
    return history_pb2_grpc.HistoryServiceStub(sidecar.channel)


async def listed(sidecar: SidecarForTests, **fields: Any) -> pb.ListTurnsResponse:
    """Return a page of turns."""
    return await stub(sidecar).ListTurns(pb.ListTurnsRequest(**fields), timeout=10, metadata=sidecar.metadata)


async def seen(sidecar: SidecarForTests, turn_id: str, *child_ids: str) -> pb.GetTurnResponse:
    """Return a turn."""
    request = pb.GetTurnRequest(turn_id=turn_id, child_ids=child_ids)
    return await stub(sidecar).GetTurn(request, timeout=10, metadata=sidecar.metadata)


async def episodes(sidecar: SidecarForTests, most: int = 0) -> Sequence[record_pb2.EpisodeRow]:
    """Return the episodes used last."""
    request = pb.ListEpisodesRequest(page_size=most)
    return list((await stub(sidecar).ListEpisodes(request, timeout=10, metadata=sidecar.metadata)).episodes)


def watching(sidecar: SidecarForTests, turn_id: str, after: Mapping[str, int] | None = None) -> Any:
    """Begin to watch a turn; the stream of messages."""
    seen_up_to = [pb.SeenUpTo(child_id=child, sequence=sequence) for child, sequence in (after or {}).items()]
    request = pb.WatchEventsRequest(turn_id=turn_id, after=seen_up_to)
    return stub(sidecar).WatchEvents(request, timeout=20, metadata=sidecar.metadata)


async def watched(sidecar: SidecarForTests, turn_id: str, after: Mapping[str, int] | None = None) -> list[Any]:
    """Watch a turn to its end; every event."""
    return [event async for message in watching(sidecar, turn_id, after) for event in message.events]


def positions(events: Sequence[record_pb2.ChildEvent]) -> dict[str, int]:
    """Return up to where a watcher of `events` has seen each child."""
    return {event.child_id: event.sequence for event in events}


def names(events: Sequence[record_pb2.ChildEvent], child_id: str = "") -> list[str]:
    """Return the short names of events: `created`, `started`, `attempt`..."""
    shown = [event for event in events if child_id in {"", event.child_id}]
    return [event.name.removeprefix("agent.").removeprefix("subagent_") for event in shown]
