"""Serves `DispatchService.Session`, the RPC that opens a session lane: a stream that carries many operations."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sidecar.core.errors import AdmissionRefused, Draining
from sidecar.core.session.incoming import check_deadline, longest_deadline
from sidecar.rpc.dispatch_servicer import SERVICE
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.session.rules import OPERATIONS, LaneDependencies, SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb

if TYPE_CHECKING:
    from sidecar.rpc.session.lane import Lane, LaneParts

METHOD: Final = f"/{SERVICE}/Session"
LANES_LIMIT: Final = "lanes"
RETRY_AFTER: Final = timedelta(seconds=1)


class SessionServicer:
    """Serves lanes.

    Args:
        rules: the operator's settings.
        around: the dependencies on the process.
        methods: the methods of `DispatchService`, whose handlers execute the operations.
    """

    def __init__(self, rules: SessionRules, around: LaneDependencies, methods: Sequence[Method]) -> None:
        self._rules = rules
        self._counts = around.counts
        self._lanes: dict[str, Lane] = {}
        self._draining = False
        self._around = around
        self._methods = {method.name: method for method in methods}
        self._instance_id = around.ids.new("instance")
        self._parts: LaneParts | None = None

    def methods(self) -> Sequence[Method]:
        """Return the RPC. A drain does not wait for lanes, but for their operations."""
        return (Method(METHOD, MethodShape.MANY_TO_MANY, pb.SessionRequest.FromString, self._session, reserved=True),)

    def drain(self) -> None:
        """Ask every client to open its next lane elsewhere: the sidecar is about to stop."""
        # First: a lane that is opened from now on is refused, instead of being drained at once.
        self._draining = True
        # A copy: a lane that ends at once removes itself.
        for lane in list(self._lanes.values()):
            lane.drain(pb.SESSION_DRAIN_REASON_STOPPING)

    async def _session(self, messages: AsyncIterator[pb.SessionRequest], call: Call) -> None:
        # First: a lane that gRPC ends at its deadline would cut off its operations without a drain.
        check_deadline(call.time_left, longest_deadline(self._rules.max_age, self._rules.drain_time))
        if self._draining:
            raise Draining("the sidecar is about to stop; open the lane elsewhere", retry_after=RETRY_AFTER)
        if len(self._lanes) >= self._rules.most_lanes:
            raise AdmissionRefused(
                f"{self._rules.most_lanes} lanes are open; use the plain RPCs, or raise session.max_lanes",
                metadata={"limit": LANES_LIMIT},
                retry_after=RETRY_AFTER,
            )
        if call.guard is None:
            raise RuntimeError("a lane needs the guard of its call")
        from sidecar.rpc.session.lane import Lane  # noqa: PLC0415  loaded with the first lane, not at the start

        if self._parts is None:
            self._parts = self._make_parts()
        lane = Lane(self._parts, call.guard, call)
        # There is no await between the check of the limit and this line, so concurrent clients cannot exceed it.
        self._lanes[lane.lane_id] = lane
        self._counts.lanes += 1
        try:
            await lane.serve(messages)
        finally:
            self._counts.lanes -= 1
            del self._lanes[lane.lane_id]

    def _make_parts(self) -> "LaneParts":
        from sidecar.core.session.stalls import Stalls  # noqa: PLC0415  loaded with the first lane
        from sidecar.rpc.session.lane import LaneParts  # noqa: PLC0415  loaded with the first lane

        return LaneParts(
            rules=self._rules,
            around=self._around,
            methods={kind: self._methods[f"/{SERVICE}/{name}"] for kind, name in OPERATIONS.items()},
            instance_id=self._instance_id,
            stalls=Stalls(),
        )
