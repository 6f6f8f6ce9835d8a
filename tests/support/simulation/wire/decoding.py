"""Frames as they arrived: compared with what the dispatch says of itself, and turned back into frames of operations."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from sidecar.core.dispatching.frames import (
    CallSnapshot,
    CallState,
    CallStateChanged,
    DispatchEvent,
    DispatchResult,
    Frame,
    Gap,
    Snapshot,
    StatusUpdate,
)
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.identifiers import CallId, ChildId, DispatchId, Slot
from sidecar.rpc.translate.enums import CALL_STATE
from sidecar.rpc.translate.fields import EPOCH
from sidecar.rpc.translate.frames import fill_outcome, fill_result
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2

STATE_OF: Final[Mapping[int, CallState]] = {int(number): state for state, number in CALL_STATE.items()}


class Decoder:
    """Decodes the frames of one dispatch once it has ended.

    Args:
        result: of the dispatch; None if it never had one.
        problems: takes what arrived otherwise than the dispatch says.
    """

    def __init__(self, dispatch_id: str, result: DispatchResult | None, problems: list[str]) -> None:
        self._dispatch_id, self._result, self._problems = dispatch_id, result, problems
        self._outcomes = {each.call_id: each for each in result.outcomes} if result is not None else {}

    def frame(self, message: pb.DispatchFrame) -> Frame:
        """Return one frame."""
        snapshot = self._snapshot(message.snapshot) if message.HasField("snapshot") else None
        events = tuple(self._events(message))
        return Frame(snapshot, events, self._whole(message.result) if message.HasField("result") else None)

    def _whole(self, message: pb.DispatchResult) -> DispatchResult | None:
        if self._result is None:
            self._problems.append(f"{self._dispatch_id}: a result arrived, and there is none")
            return None
        wanted = pb.DispatchResult()
        fill_result(wanted, self._result)
        if message != wanted:
            self._problems.append(f"{self._dispatch_id}: another result arrived than there is")
        return self._result

    def _events(self, message: pb.DispatchFrame) -> Iterator[DispatchEvent]:
        for each in message.events:
            at = EPOCH + timedelta(seconds=each.occurred_at.seconds, microseconds=each.occurred_at.nanos // 1000)
            yield DispatchEvent(each.sequence, at, self._what(each))

    def _what(self, event: pb.DispatchEvent) -> CallStateChanged | StatusUpdate | Gap:
        kind = event.WhichOneof("kind")
        if kind == "gap":
            return Gap(event.gap.from_sequence, event.gap.to_sequence)
        if kind == "status":
            said = event.status
            slots = tuple(Slot(slot) for slot in said.sub_agent_ids)
            return StatusUpdate(CallId(event.call_id) or None, said.type, slots, said.count, dict(said.attributes))
        changed = event.state_changed
        outcome = self._outcome(CallId(event.call_id), changed.outcome) if changed.HasField("outcome") else None
        return CallStateChanged(CallId(event.call_id), STATE_OF[changed.state], outcome)

    def _outcome(self, call_id: CallId, message: outcome_pb2.CallOutcome) -> CallOutcome | None:
        outcome = self._outcomes.get(call_id)
        if outcome is not None:
            wanted = outcome_pb2.CallOutcome()
            fill_outcome(wanted, outcome)
            if message != wanted:
                self._problems.append(f"{self._dispatch_id}: another outcome of {call_id} arrived than there is")
        return outcome

    def _snapshot(self, message: pb.DispatchSnapshot) -> Snapshot:
        calls = [
            CallSnapshot(
                CallId(each.call_id),
                Slot(each.sub_agent_id) if each.sub_agent_id else None,
                ChildId(each.child_id) if each.child_id else None,
                STATE_OF[each.state],
            )
            for each in message.calls
        ]
        attached = message.state == pb.START_STATE_ATTACHED
        return Snapshot(DispatchId(message.dispatch_id), attached, message.sequence, tuple(calls))
