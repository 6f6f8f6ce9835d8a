"""The trace in which a step was requested, in the audit and in whatever an audit sink is handed."""

import logging
from collections.abc import Sequence
from typing import Final

from sidecar.core.rollout.events import RolloutEvent
from sidecar.observability.audit.sinks import OtlpAuditSink, written
from sidecar.operations.rollout.store.ports import AuditQuery
from sidecar.policy.audit import AuditEntry
from subagents.lifecycle.v1 import lifecycle_pb2
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requirement import requirement

TRACE_ID: Final = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID: Final = "b7ad6b7169203331"
TRACE: Final = f"00-{TRACE_ID}-{SPAN_ID}-01"


async def ramped(bench: OperatedSidecar, points: int, request_id: str, traceparent: str) -> lifecycle_pb2.StepResult:
    """Set the ramp of `shop` in a call with this metadata."""
    header = await bench.header(request_id=request_id)
    request = lifecycle_pb2.SetRampRequest(header=header, ramp_basis_points=points)
    metadata = (*bench.role(), ("traceparent", traceparent))
    return (await bench.lifecycle.SetRamp(request, timeout=10, metadata=metadata)).result


async def entries(bench: OperatedSidecar, request_id: str) -> list[AuditEntry]:
    """Return what the sinks are handed about a request."""
    rows = await bench.store.audit(AuditQuery())
    return [written(AuditEntry("e", row.number, row.body, None)) for row in rows if row.body.request_id == request_id]


class Collector:
    """Takes what it is sent."""

    def __init__(self) -> None:
        self.traces: list[str] = []

    def __call__(self, records: Sequence[logging.LogRecord]) -> bool:
        """Take it."""
        self.traces += [vars(record)["of_trace"].traceparent for record in records]
        return True

    def close(self) -> None:
        """Nothing is open."""


@requirement("PF1-FR-10c")
async def test_the_audit_has_the_trace_in_which_a_step_was_requested() -> None:
    """On record with the event; in sinks under the names that it has in the log; a malformed one counts as none."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        await ramped(bench, 2500, "r-traced", TRACE)
        await ramped(bench, 5000, "r-malformed", TRACE.replace("0af", "XYZ"))
        (traced,), (malformed,) = [await entries(bench, each) for each in ("r-traced", "r-malformed")]

    collector = Collector()
    await OtlpAuditSink(collector).take([traced, malformed])
    assert collector.traces == [TRACE, ""]
    assert isinstance(traced.body, RolloutEvent)
    assert (traced.body.traceparent, malformed.body.traceparent) == (TRACE, "")
    assert (traced.fields["trace_id"], traced.fields["span_id"]) == (TRACE_ID, SPAN_ID)
    assert not {"trace_id", "span_id"} & set(malformed.fields)
