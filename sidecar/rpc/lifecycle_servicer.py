"""Serves `LifecycleService`: the steps of rollouts, and reads of their state. The actor is the role token's subject."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Final

import msgspec
from grpc.aio import BaseError

from sidecar.core.errors import InternalError, Overloaded, RequestIdReused, RevisionConflict, RoleRequired
from sidecar.operations.ports import Clock
from sidecar.operations.process.rollout_assembly import RolloutOperations
from sidecar.operations.rollout import requests
from sidecar.operations.trace_context import trace_of
from sidecar.rpc.handler_guard import ServingRules
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.operators import OperatorReports
from sidecar.rpc.refused_steps import note_refused_step
from sidecar.rpc.translate import (
    activity,
    decommission_steps,
    decommissions,
    flag_steps,
    flags,
    rollouts,
    steps,
)
from sidecar.rpc.translate.pages import page_of
from subagents.lifecycle.v1 import activity_pb2, evidence_pb2, flags_pb2, reading_pb2
from subagents.lifecycle.v1 import lifecycle_pb2 as pb

SERVICE: Final = "subagents.lifecycle.v1.LifecycleService"
WRITE_TIMEOUT: Final = ServingRules().write_timeout


class LifecycleServicer:
    """The service with which operators and automation change and read rollouts.

    Args:
        operations: the operations behind the service.
        clock: decides whether overrides have expired.
        reports: logs and counts steps that the caller's role does not permit.
        write_timeout: a watcher that accepts no message for this long is disconnected.
    """

    def __init__(
        self,
        operations: RolloutOperations,
        clock: Clock,
        reports: OperatorReports,
        write_timeout: timedelta = WRITE_TIMEOUT,
    ) -> None:
        self._operations = operations
        self._clock = clock
        self._reports = reports
        self._write_timeout = write_timeout

    def methods(self) -> Sequence[Method]:
        """Return the RPCs; all are served however busy the sidecar is."""
        return (*self._steps(), *self._flags(), *self._decommissions(), *self._reading())

    def _steps(self) -> Sequence[Method]:
        return (
            self._step("Transition", pb.TransitionRequest, steps.transition, pb.TransitionResponse),
            self._step("SetRamp", pb.SetRampRequest, steps.set_ramp, pb.SetRampResponse),
            self._step("ConfigureRollout", pb.ConfigureRolloutRequest, steps.configure, pb.ConfigureRolloutResponse),
            self._step("RampDown", pb.RampDownRequest, steps.ramp_down, pb.RampDownResponse),
            self._step(
                "AcknowledgeBreach", pb.AcknowledgeBreachRequest, steps.acknowledge_breach, pb.AcknowledgeBreachResponse
            ),
            self._step("OverrideGate", pb.OverrideGateRequest, self._override, pb.OverrideGateResponse),
            self._step("RollBack", pb.RollBackRequest, steps.roll_back, pb.RollBackResponse),
            self._plain("Activate", pb.ActivateRequest, requests.Activate, pb.ActivateResponse),
            self._plain("Kill", pb.KillRequest, requests.Kill, pb.KillResponse),
            self._plain("RetireFlags", pb.RetireFlagsRequest, requests.RetireFlags, pb.RetireFlagsResponse),
        )

    def _flags(self) -> Sequence[Method]:
        return (
            self._step("SwitchFlagOn", pb.SwitchFlagOnRequest, flag_steps.switch_on, pb.SwitchFlagOnResponse),
            self._step(
                "SwitchCohortFlagOff",
                pb.SwitchCohortFlagOffRequest,
                flag_steps.switch_cohort_off,
                pb.SwitchCohortFlagOffResponse,
            ),
            self._step(
                "SwitchKillFlagOff",
                pb.SwitchKillFlagOffRequest,
                flag_steps.switch_kill_off,
                pb.SwitchKillFlagOffResponse,
            ),
            Method(
                f"/{SERVICE}/GetFlags",
                MethodShape.ONE_TO_ONE,
                flags_pb2.GetFlagsRequest.FromString,
                self._get_flags,
                urgent=True,
            ),
        )

    def _decommissions(self) -> Sequence[Method]:
        return (
            self._plain(
                "BeginDecommission",
                pb.BeginDecommissionRequest,
                requests.BeginDecommission,
                pb.BeginDecommissionResponse,
            ),
            self._step(
                "TakeDecommissionStep",
                pb.TakeDecommissionStepRequest,
                decommission_steps.take_step,
                pb.TakeDecommissionStepResponse,
            ),
            self._step(
                "DecideDecommission",
                pb.DecideDecommissionRequest,
                decommission_steps.decide,
                pb.DecideDecommissionResponse,
            ),
            self._plain(
                "UndoDecommission", pb.UndoDecommissionRequest, requests.UndoDecommission, pb.UndoDecommissionResponse
            ),
            Method(
                f"/{SERVICE}/ListDecommissions",
                MethodShape.ONE_TO_ONE,
                reading_pb2.ListDecommissionsRequest.FromString,
                self._list_decommissions,
                urgent=True,
            ),
        )

    def _reading(self) -> Sequence[Method]:
        one = MethodShape.ONE_TO_ONE
        return (
            Method(f"/{SERVICE}/GetRollout", one, reading_pb2.GetRolloutRequest.FromString, self._get, urgent=True),
            Method(
                f"/{SERVICE}/ListRollouts", one, reading_pb2.ListRolloutsRequest.FromString, self._list, urgent=True
            ),
            Method(
                f"/{SERVICE}/ExplainServing",
                one,
                reading_pb2.ExplainServingRequest.FromString,
                self._explain,
                urgent=True,
            ),
            Method(
                f"/{SERVICE}/PreviewRamp", one, reading_pb2.PreviewRampRequest.FromString, self._preview, urgent=True
            ),
            Method(
                f"/{SERVICE}/ListActivePeriods",
                one,
                activity_pb2.ListActivePeriodsRequest.FromString,
                self._active_periods,
                urgent=True,
            ),
            Method(
                f"/{SERVICE}/ListReplicas", one, reading_pb2.ListReplicasRequest.FromString, self._replicas, urgent=True
            ),
            Method(
                f"/{SERVICE}/GetRampEvidence",
                one,
                evidence_pb2.GetRampEvidenceRequest.FromString,
                self._ramp_evidence,
                urgent=True,
            ),
            Method(
                f"/{SERVICE}/WatchAudit",
                MethodShape.ONE_TO_MANY,
                reading_pb2.WatchAuditRequest.FromString,
                self._watch_audit,
                reserved=True,  # it never ends by itself, and a drain must not wait for it
            ),
        )

    def _plain(self, name: str, request: Any, kind: type[requests.StepRequest], response: Any) -> Method:
        """Return the RPC of a step whose request has only a header."""
        return self._step(
            name, request, lambda message: steps.request_to_plain(f"{name}Request", kind, message), response
        )

    def _step(self, name: str, request: Any, translate: Callable[[Any], requests.StepRequest], response: Any) -> Method:
        """Return the RPC of one step; `translate` checks its request and returns it as a plain value."""

        async def handle(message: Any, call: Call) -> Any:
            # From the verified token, never from the message: the audit must name the real operator.
            requester = {"actor_key": call.caller.key, "actor_role": call.caller.role or ""}
            # With the step on record, an operator can go from an audit row to the trace of the request.
            trace = trace_of(call.metadata).traceparent
            step = msgspec.structs.replace(translate(message), **requester, traceparent=trace)
            try:
                answer = await self._operations.step(step, call.subject)
            # Refused before the rules of the step ran, so the step itself has recorded nothing: the audit must have it.
            except (RevisionConflict, RequestIdReused, RoleRequired) as refused:
                # Not reported yet: the listener admitted the role, and only the step found that it may not raise the
                # ramp.
                if isinstance(refused, RoleRequired):
                    self._reports.refused(f"/{SERVICE}/{name}", refused.metadata["cause"], call.caller)
                note_refused_step(self._operations.refusals, name, step, call, refused)
                raise
            return response(result=steps.result_message(answer))

        return Method(f"/{SERVICE}/{name}", MethodShape.ONE_TO_ONE, request.FromString, handle, urgent=True)

    def _override(self, message: pb.OverrideGateRequest) -> requests.OverrideGate:
        return steps.override_gate(message, self._clock.now())  # the only step whose fields depend on the time

    async def _get(self, message: reading_pb2.GetRolloutRequest, call: Call) -> reading_pb2.GetRolloutResponse:
        reading = await self._operations.read.get(rollouts.get(message))
        return reading_pb2.GetRolloutResponse(status=rollouts.slot_message(reading))

    async def _get_flags(self, message: flags_pb2.GetFlagsRequest, call: Call) -> flags_pb2.GetFlagsResponse:
        return flags.flags_message(await self._operations.read_flags(flag_steps.of_slot(message)))

    async def _list(self, message: reading_pb2.ListRolloutsRequest, call: Call) -> reading_pb2.ListRolloutsResponse:
        read = self._operations.read
        # With `or_replica_view`, a list is also available while the store is not: it may then be outdated.
        reading = await (read.list_or_shown() if message.or_replica_view else read.list())
        # The page is cut here and not by a query: there are few rollouts, and `read` returns all of them.
        slots, token = page_of(reading.slots, message, lambda each: each.rollout.slot)
        return rollouts.rollouts_message(reading, slots, token)

    async def _list_decommissions(
        self, message: reading_pb2.ListDecommissionsRequest, call: Call
    ) -> reading_pb2.ListDecommissionsResponse:
        found = await self._operations.decommissions(finished=message.include_finished)
        shown, token = page_of(
            found, message, lambda each: f"{each.slot} {each.facts.definition_id} {each.facts.digest}"
        )
        return reading_pb2.ListDecommissionsResponse(
            decommissions=[decommissions.reading_message(each) for each in shown], next_page_token=token
        )

    async def _explain(
        self, message: reading_pb2.ExplainServingRequest, call: Call
    ) -> reading_pb2.ExplainServingResponse:
        return rollouts.explanation_message(await self._operations.explain(*rollouts.explain(message)))

    async def _preview(self, message: reading_pb2.PreviewRampRequest, call: Call) -> reading_pb2.PreviewRampResponse:
        return rollouts.preview_message(await self._operations.preview(*rollouts.preview(message)))

    async def _active_periods(
        self, message: activity_pb2.ListActivePeriodsRequest, call: Call
    ) -> activity_pb2.ListActivePeriodsResponse:
        found = await self._operations.read_activity(activity.active_periods(message))
        shown, token = page_of(
            found.periods, message, lambda each: "" if each.since is None else each.since.isoformat()
        )
        return activity.activity_message(found, shown, token)

    async def _replicas(self, message: reading_pb2.ListReplicasRequest, call: Call) -> reading_pb2.ListReplicasResponse:
        replicas, version = await self._operations.read.replicas()
        shown, token = page_of(replicas, message, lambda each: each.instance)
        return reading_pb2.ListReplicasResponse(
            replicas=[rollouts.replica_message(each) for each in shown], rollout_version=version, next_page_token=token
        )

    async def _ramp_evidence(
        self, message: evidence_pb2.GetRampEvidenceRequest, call: Call
    ) -> evidence_pb2.GetRampEvidenceResponse:
        from sidecar.rpc.translate import evidence  # noqa: PLC0415  imported when a watchdog first asks

        slot = evidence.asked_slot(message)
        return evidence.evidence_message(await self._operations.read_ramp_evidence(), slot)

    async def _watch_audit(self, message: reading_pb2.WatchAuditRequest, call: Call) -> None:
        query = rollouts.watch_audit(message)
        # Closed explicitly: a generator that is only dropped keeps its subscription until the garbage collector runs.
        async with aclosing(self._operations.watch_audit(query, follow=not message.no_follow)) as pages:
            async for rows in pages:
                for answer in rollouts.audit_messages(rows):
                    await send(call, answer, self._write_timeout)


async def send(call: Call, message: Any, timeout: timedelta) -> None:
    """Send one message of a stream.

    Raises:
        Overloaded: the client has read nothing for `timeout`.
        InternalError: the stream is broken.
    """
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            await call.write(message)
    except TimeoutError:
        raise Overloaded(
            f"nothing was read from the stream for {timeout.total_seconds():g} s; read faster, and ask again",
            # At once: the client was too slow, and the sidecar is not overloaded.
            retry_after=timedelta(0),
        ) from None
    except BaseError:
        raise InternalError("the stream broke; ask again") from None  # usually, no client is left to read it
