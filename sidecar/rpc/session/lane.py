"""Serves one session lane: reads operations, runs each like the RPC that it names, writes all results in one task."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from sidecar.core.errors import FieldProblem, Overloaded, SessionInvalid, SessionOver, SubagentsError
from sidecar.core.session.incoming import IncomingValidator, LaneStage, lifetime
from sidecar.core.session.outgoing import Credit, OutgoingQueue
from sidecar.core.session.stalls import MOST_IDS, Stall, Stalls
from sidecar.rpc.dispatch_servicer import require_of
from sidecar.rpc.handler_guard import SENT_AT_KEY
from sidecar.rpc.methods import Call, HandlerWrapper, Method
from sidecar.rpc.session.hello import server_hello
from sidecar.rpc.session.opening import must_begin_before
from sidecar.rpc.session.operation import LEFT, OK, LeaveReason, Operation, ended, exhausted, in_span
from sidecar.rpc.session.rules import SILENT_INTERVALS, LaneDependencies, SessionRules, contract
from sidecar.rpc.session.writing import LaneWriter
from subagents.dispatch.v1 import dispatch_pb2 as pb

DEFAULT_LANE_CREDIT: Final = 4 * 1024 * 1024  # bytes; for a hello that states no credit
DEFAULT_OPERATION_CREDIT: Final = 1024 * 1024  # bytes; less: one operation must not use up the credit of the lane
HEARTBEAT: Final = pb.SessionResponse(heartbeat=pb.SessionHeartbeat()).SerializeToString()


class LaneParts(Struct, frozen=True):
    """The objects that all lanes of a process share. `methods` has the method of each kind of operation."""

    rules: SessionRules
    around: LaneDependencies
    methods: Mapping[str, Method]
    instance_id: str
    stalls: Stalls


class Lane:
    """One lane, from its first message to its last. Call `serve` once, in the task of the lane's call."""

    def __init__(self, parts: LaneParts, guard: HandlerWrapper, call: Call) -> None:
        self._parts, self._guard, self._call = parts, guard, call
        self._rules, self._clock = parts.rules, parts.around.clock
        self._metadata = tuple(each for each in call.metadata if each[0] != SENT_AT_KEY)  # of the lane, not of a call
        self._incoming = IncomingValidator(parts.rules.most_operations)
        self._outgoing = OutgoingQueue(0, parts.rules.outgoing)
        self._operations: dict[int, Operation] = {}
        self._dispatches: dict[str, list[Operation]] = {}  # those that have not ended, by surface token, oldest first
        self._timers: list[tuple[float, asyncio.Handle]] = []
        self._in_flight = guard.in_flight
        self._drain_at_hello: pb.SessionDrainReason | None = None  # of a drain that began before the hello
        self._heartbeats = False
        self._heard_at = self._clock.monotonic()
        self._writer = LaneWriter(call.context.write, self._outgoing, self._clock)
        self.lane_id = parts.around.ids.new("lane")

    async def serve(self, messages: AsyncIterator[pb.SessionRequest]) -> None:
        """Serve until the client has closed its side and every operation has ended.

        Raises:
            SessionInvalid, MalformedMessage: the client violates the contract.
            SessionOver: the lane's time is over, or the client did not read.
        """
        reading = self._parts.around.spawner.spawn(self._read(messages), "lane")
        self._later(SILENT_INTERVALS * self._rules.heartbeat_interval.total_seconds(), self._require_hello)
        try:
            await self._writer.run()
        finally:
            self._break()  # also if gRPC cancelled the call: operations must learn that the client has left
            reading.cancel()

    def auth_context(self) -> Any:
        """Return what the TLS handshake of the lane's connection has proven."""
        return self._call.context.auth_context()

    def drain(self, reason: pb.SessionDrainReason) -> None:
        """Ask the client to open another lane. Before the client's hello, the request waits for the hello."""
        if self._incoming.stage is LaneStage.OPENING:
            self._drain_at_hello = reason
        elif self._incoming.drain():
            within = self._rules.drain_time
            message = pb.SessionResponse(drain=pb.SessionDrain(reason=reason))
            message.drain.within.FromTimedelta(within)
            cause = "stopping" if reason == pb.SESSION_DRAIN_REASON_STOPPING else "age"
            self._later(within.total_seconds(), self._writer.fail, _over(cause, "the lane's time is over"))
            self._writer.tell(message.SerializeToString())

    # --- incoming messages

    async def _read(self, messages: AsyncIterator[pb.SessionRequest]) -> None:
        try:
            async for message in messages:
                if self._writer.over:  # the lane is abandoned: an operation that began now could not answer
                    return
                self._heard_at = self._clock.monotonic()
                self._take(message, self._heard_at)
                if self._outgoing.crowded:
                    await self._until_there_is_room()
            self._incoming.check_open()
            self._incoming.close()
            self._end_if_idle()
        except Exception as error:  # noqa: BLE001  an error here belongs to the whole lane, not to one operation
            self._writer.fail(error)

    async def _until_there_is_room(self) -> None:
        """Stop reading until the client has read some results. This does not count as silence of the client."""
        self._heard_at = math.inf  # for `_tick`, the silence is now below 0
        while self._outgoing.crowded:  # one written message may free too little
            await self._writer.written()
        self._heard_at = self._clock.monotonic()

    def _take(self, message: pb.SessionRequest, now: float) -> None:
        if message.HasField("hello"):
            self._hello(message.hello)
        self._incoming.check_open(len(message.operations) + len(message.credits) + len(message.abandons))
        for credit in message.credits:
            self._incoming.granted(credit.bytes)
            self._outgoing.grant(credit.correlation_id, credit.bytes)
        for operation in message.operations:
            self._begin(operation, now)
        # Abandons are handled after the operations: an operation that the same message abandons never begins.
        for correlation_id in message.abandons:
            if correlation_id in self._operations:
                self._operations[correlation_id].leave(LeaveReason.ABANDONED)
            elif self._outgoing.is_blocked(correlation_id):
                self._outgoing.cut(correlation_id, ended(correlation_id, None)[0].SerializeToString())
        if self._outgoing.ready:
            self._writer.wake()

    def _hello(self, hello: pb.SessionClientHello) -> None:
        self._incoming.hello(hello.contract_version, hello.credit_bytes)
        if hello.required_features:
            require_of(contract(self._rules), hello.required_features, "hello.required_features")
        self._heartbeats = hello.heartbeats
        self._outgoing.grant(0, hello.credit_bytes or DEFAULT_LANE_CREDIT)
        age = lifetime(self._rules.max_age, self._parts.around.chance.uniform)
        stall = self._parts.stalls.of(hello.previous_lane_id) if hello.previous_lane_id else None
        answer = server_hello(self._rules, self._parts.instance_id, self.lane_id, age, stall)
        self._later(age.total_seconds(), self.drain, pb.SESSION_DRAIN_REASON_AGE)
        self._tick()
        self._writer.tell(answer.SerializeToString())
        if self._drain_at_hello is not None:
            self.drain(self._drain_at_hello)

    def _begin(self, message: pb.SessionOperation, now: float) -> None:
        self._incoming.begin(message.correlation_id, message.credit_bytes)
        operation = Operation(message, self._metadata, self, now)
        method = self._parts.methods.get(operation.kind)
        # Refused without a task: otherwise one message with many operations could exhaust the memory.
        if method is None:
            missing = [FieldProblem("request", "is missing")]
            self._refuse(operation, SessionInvalid("the operation holds no request", fields=missing), "")
            return
        if len(self._operations) >= self._rules.most_operations:
            self._refuse(operation, self._incoming.full(), method.name)
            return
        self._operations[operation.correlation_id] = operation
        self._outgoing.open(operation.correlation_id, message.credit_bytes or DEFAULT_OPERATION_CREDIT)
        earlier = self._dispatches.get(operation.token)
        waits_for = must_begin_before(operation, earlier) if earlier else ()
        if operation.kind == "dispatch":
            self._dispatches.setdefault(operation.token, []).append(operation)
        operation.task = self._parts.around.spawner.spawn(self._run(operation, method, waits_for), "operation")
        if operation.seconds is not None:
            loop = asyncio.get_running_loop()
            operation.timer = loop.call_later(operation.seconds, operation.leave, LeaveReason.EXPIRED)

    def _refuse(self, operation: Operation, error: SubagentsError, name: str) -> None:
        self._guard.note(error)
        response, code = ended(operation.correlation_id, error)
        self._outgoing.tell(response.SerializeToString())
        self._count(operation, name, code, error.reason)

    async def _run(self, operation: Operation, method: Method, waits_for: Sequence[Operation]) -> None:
        answer: Any = None
        operation.started = True  # from here on, a cancellation reaches the `finally` below
        try:
            if operation.left not in (None, LeaveReason.BROKEN):  # after a break it still begins: see `leave`
                return
            for each in waits_for:
                await each.until_begun()
            self._in_flight.begin(method.name)
            try:
                if self._parts.around.span is None:
                    answer = await self._guard(method, operation, operation.work(method))
                else:
                    answer = await in_span(operation, method, self._guard, self._parts.around.span)
            finally:
                self._in_flight.end(method.name)
        except asyncio.CancelledError:
            if operation.left is None:
                raise  # not cancelled by `leave`: the process is stopping
        finally:
            if not operation.begun:  # e.g. it was refused: later operations must not wait for ever
                operation.has_begun()
            if operation.kind == "dispatch":
                self._dispatches[operation.token].remove(operation)
                if not self._dispatches[operation.token]:
                    del self._dispatches[operation.token]
            self._end(operation, answer, method.name)

    # --- outgoing messages

    def add(self, operation: Operation, response: pb.SessionResponse, *, last: bool = False) -> SubagentsError | None:
        """Queue a result of an operation; see `OutgoingQueue.add`."""
        framed = response.SerializeToString()
        if len(framed) > self._rules.message_bytes:
            return Overloaded("the result is larger than a message may be; see server.limits.message_bytes")
        missing = self._outgoing.add(operation.correlation_id, framed, last=last)
        if missing is not None:
            operation.grace = self._rules.resume_grace
            self._parts.around.reports.out_of_credit(missing)
            return exhausted(missing)
        self._writer.wake()
        return None

    def _end(self, operation: Operation, answer: Any, name: str) -> None:
        if operation.timer is not None:
            operation.timer.cancel()
        del self._operations[operation.correlation_id]
        if self._writer.over:
            self._count(operation, name, LEFT)  # the queue is closed; the client repeats or resumes it
            return
        code = OK
        response, refused = operation.end(answer)
        if response is not None:
            refused = self.add(operation, response, last=True)
        if response is None or refused is not None:  # `cut` costs no credit, so this status always arrives
            response, code = ended(operation.correlation_id, refused)
            self._outgoing.cut(operation.correlation_id, response.SerializeToString())
            self._writer.wake()
        self._count(operation, name, code, "" if refused is None else refused.reason)
        if self._incoming.stage is LaneStage.CLOSING:
            self._end_if_idle()

    def _count(self, operation: Operation, name: str, code: str, reason: str = "") -> None:
        self._guard.on_ended(*operation.measured(self._clock.monotonic(), name, code, reason))
        if not self._writer.over:  # operations of a broken lane are only measured above
            self._parts.around.counts.operations[name, code] += 1

    # --- lifetime

    def _require_hello(self) -> None:
        try:
            self._incoming.check_open()
        except SessionInvalid as missing:
            self._writer.fail(missing)

    def _tick(self) -> None:
        interval = self._rules.heartbeat_interval.total_seconds()
        stalled_for = self._rules.stall_timeout.total_seconds()
        if self._writer.blocked_for() >= stalled_for:
            self._abandon_stalled()
            return
        if self._heartbeats and self._clock.monotonic() - self._heard_at >= SILENT_INTERVALS * interval:
            self._writer.fail(_over("silent", "the client has sent no heartbeat"))
        if self._writer.quiet_for() >= interval / 2:
            self._writer.tell(HEARTBEAT)
        self._later(min(interval, stalled_for) / 2, self._tick)  # either limit is noticed at most half of it late

    def _abandon_stalled(self) -> None:
        """Abandon a lane that can no longer be written: release its operations now; the next lane reports it.

        This happens before the call ends, because an operation must not find its queue closed.
        """
        unended, dropped = tuple(self._operations)[:MOST_IDS], self._outgoing.size
        self._break()
        stall = Stall(self.lane_id, self._clock.now(), unended, dropped)
        self._parts.stalls.add(stall)
        self._parts.around.reports.stalled(stall)
        self._writer.give_up(_over("stalled", "the client has not read the lane"))

    def _break(self) -> None:
        """Release every operation, with the grace to resume it."""
        self._writer.over = True  # first: an operation that ends now queues nothing
        for _, timer in self._timers:
            timer.cancel()
        self._outgoing.clear()
        for operation in list(self._operations.values()):
            operation.leave(LeaveReason.BROKEN, self._rules.resume_grace)

    def _end_if_idle(self) -> None:
        if self._incoming.stage is LaneStage.CLOSING and not self._operations:
            for correlation_id in self._outgoing.blocked:  # the client has closed its side: no more credit can arrive
                unpaid, _ = ended(correlation_id, exhausted(Credit.LANE))
                self._outgoing.cut(correlation_id, unpaid.SerializeToString())
            self._writer.over = True
            self._writer.wake()

    def _later(self, seconds: float, what: Callable[..., None], *arguments: Any) -> None:
        now = self._clock.monotonic()
        self._timers = [(at, timer) for at, timer in self._timers if at > now and not timer.cancelled()]
        # The time is stored separately: for less than half a millisecond, uvloop returns a handle without `when()`.
        timer = asyncio.get_running_loop().call_later(seconds, what, *arguments)
        self._timers.append((now + seconds, timer))


def _over(cause: str, text: str) -> SessionOver:
    return SessionOver(f"{text}; open another one", metadata={"cause": cause})
