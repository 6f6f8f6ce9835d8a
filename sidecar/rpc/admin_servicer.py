"""Serves `AdminService` on the operators' listener: parses requests, calls the operations, and builds the responses."""

from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Final

from sidecar.core.identifiers import Principal, TurnId
from sidecar.operations.process.administration import Administer, SidecarStatus, Verified
from sidecar.operations.record.erase_user import ErasureReport
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import InventoryRow, PluginState
from sidecar.rpc.lifecycle_servicer import WRITE_TIMEOUT, send
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.translate.enums import TURN_CLOSE_REASON, numbers_of
from sidecar.rpc.translate.fields import Fields, fill_duration, fill_timestamp
from sidecar.rpc.translate.pages import page_of
from sidecar.rpc.translate.steps import LONGEST_REASON
from subagents.admin.v1 import admin_pb2 as pb

SERVICE: Final = "subagents.admin.v1.AdminService"
# The numbers of the proto's enums, by the sidecar's own values.
PLUGIN_KIND: Final = numbers_of(pb.PluginKind, "PLUGIN_KIND", PluginKind)
PLUGIN_STATE: Final = numbers_of(pb.PluginState, "PLUGIN_STATE", PluginState)


class AdminServicer:
    """The service with which operators inspect and stop one sidecar, end turns, and erase a user's data.

    Args:
        administer: the operations behind the service.
        write_timeout: a client that reads no message for this long is disconnected.
    """

    def __init__(self, administer: Administer, write_timeout: timedelta = WRITE_TIMEOUT) -> None:
        self._administer = administer
        self._write_timeout = write_timeout

    def methods(self) -> Sequence[Method]:
        """Return the RPCs. All are served however busy the sidecar is, because operators need them in an incident."""
        one = MethodShape.ONE_TO_ONE
        return (
            Method(f"/{SERVICE}/ListPlugins", one, pb.ListPluginsRequest.FromString, self._list_plugins, urgent=True),
            Method(f"/{SERVICE}/Drain", one, pb.DrainRequest.FromString, self._drain, urgent=True),
            Method(f"/{SERVICE}/ForceEndTurn", one, pb.ForceEndTurnRequest.FromString, self._end_turn, urgent=True),
            Method(f"/{SERVICE}/GetStatus", one, pb.GetStatusRequest.FromString, self._get_status, urgent=True),
            Method(f"/{SERVICE}/GetTraffic", one, pb.GetTrafficRequest.FromString, self._get_traffic, urgent=True),
            Method(
                f"/{SERVICE}/VerifyLog",
                MethodShape.ONE_TO_MANY,
                pb.VerifyLogRequest.FromString,
                self._verify_log,
                reserved=True,  # it may take long and only reads, so a drain must not wait for it
            ),
            Method(
                f"/{SERVICE}/EraseUser",
                MethodShape.ONE_TO_MANY,
                pb.EraseUserRequest.FromString,
                self._erase_user,
                reserved=True,  # repeating the request continues an interrupted erasure
            ),
        )

    async def _list_plugins(self, message: pb.ListPluginsRequest, call: Call) -> pb.ListPluginsResponse:
        # All three together are unique: two distributions may offer one name, and one name may have several kinds.
        shown, token = page_of(
            self._administer.plugins(), message, lambda row: f"{row.kind} {row.name} {row.distribution}"
        )
        return pb.ListPluginsResponse(plugins=[_plugin(row) for row in shown], next_page_token=token)

    async def _drain(self, message: pb.DrainRequest, call: Call) -> pb.DrainResponse:
        fields = Fields("DrainRequest")
        reason = _reason(fields, message.reason)
        fields.check()
        # Does not wait for running calls: the response says how many there are.
        status = self._administer.drain(call.subject, reason, resume=message.resume)
        return pb.DrainResponse(draining=status.draining, open_turns=status.open_turns, calls_in_flight=status.calls)

    async def _end_turn(self, message: pb.ForceEndTurnRequest, call: Call) -> pb.ForceEndTurnResponse:
        fields = Fields("ForceEndTurnRequest")
        turn_id = TurnId(fields.run_side_id("turn_id", message.turn_id))
        reason = _reason(fields, message.reason)
        fields.check()
        # The subject of the verified token: the log must name the real operator, not one that the request names.
        ended = await self._administer.end_turn(turn_id, call.subject, reason)
        close_reason = TURN_CLOSE_REASON[ended.close_reason]
        return pb.ForceEndTurnResponse(ended_before=ended.before, close_reason=close_reason, child_count=ended.children)

    async def _get_status(self, message: pb.GetStatusRequest, call: Call) -> pb.GetStatusResponse:
        from sidecar.rpc.translate.rollout_enums import ACTOR_ROLE  # noqa: PLC0415  a start does not need it

        status = _status(self._administer.status())
        status.caller, status.caller_role = call.subject, ACTOR_ROLE[call.caller.role or ""]
        return status

    async def _get_traffic(self, message: pb.GetTrafficRequest, call: Call) -> pb.GetTrafficResponse:
        from sidecar.rpc.translate.traffic import traffic_message  # noqa: PLC0415  most sidecars are never asked

        administer = self._administer
        return traffic_message(administer.traffic(), administer.instance, administer.clock.now())

    async def _verify_log(self, message: pb.VerifyLogRequest, call: Call) -> None:
        # Closed at once when the client leaves, so that the verification stops reading the record.
        async with aclosing(self._administer.verify()) as reports:
            # Progress is sent too, so that neither the client nor a proxy takes a long verification for a dead call.
            async for verified in reports:
                await send(call, _verification_message(verified), self._write_timeout)

    async def _erase_user(self, message: pb.EraseUserRequest, call: Call) -> None:
        fields = Fields("EraseUserRequest")
        principal = Principal(fields.principal("principal", message.principal))
        reason = _reason(fields, message.reason)
        fields.check()
        erasure = self._administer.erase_user(principal, call.subject, reason, preview=message.preview)
        async with aclosing(erasure):
            async for erased in erasure:
                await send(call, _erasure_message(erased), self._write_timeout)


def _reason(fields: Fields, reason: str) -> str:
    """Return the reason of a request; an empty one is a problem of the request."""
    if not reason.strip():
        fields.refuse("reason", "is empty; say why, for the log")
    return fields.one_line("reason", reason, LONGEST_REASON)


def _plugin(row: InventoryRow) -> pb.Plugin:
    return pb.Plugin(
        name=row.name,
        kind=PLUGIN_KIND[PluginKind(row.kind)] if row.kind else pb.PLUGIN_KIND_UNSPECIFIED,
        contract=row.contract,
        distribution=row.distribution,
        version=row.version,
        state=PLUGIN_STATE[row.state],
        summary=row.summary,
        problem=row.error,
    )


def _status(status: SidecarStatus) -> pb.GetStatusResponse:
    message = pb.GetStatusResponse(
        version=status.version,
        instance_id=status.instance,
        ready=not status.blocks,
        blockers=status.blocks,
        attention=status.attention,
        draining=status.draining,
        open_turns=status.open_turns,
        calls_in_flight=status.calls,
        rollout_version=status.rollout_version,
        pending_kills=status.pending_kills,
    )
    # In place: a constructor with nested messages would copy them.
    fill_timestamp(message.started_at, status.started_at)
    fill_duration(message.uptime, status.uptime)
    return message


def _erasure_message(erased: ErasureReport) -> pb.EraseUserResponse:
    return pb.EraseUserResponse(
        turns_read=erased.looked_at,
        turn_count=erased.turns,
        open_turn_ids=erased.open_turns,
        fact_count=erased.facts,
        conversation_count=erased.conversations,
        done=erased.done,
    )


def _verification_message(verified: Verified) -> pb.VerifyLogResponse:
    return pb.VerifyLogResponse(
        fact_count=verified.facts,
        turn_count=verified.turns,
        findings=verified.findings,
        notices=verified.notices,
        done=verified.done,
    )
