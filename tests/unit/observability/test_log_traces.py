"""Which trace a line of the log belongs to, and which tasks work for one."""

import io
import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from grpc import StatusCode
from opentelemetry.sdk.trace import TracerProvider

from sidecar.composition.telemetry.log_traces import LANE, LogTraces, operation_trace
from sidecar.observability.logging import ALWAYS, StructuredLog, logging_to
from sidecar.observability.redaction import Redactor
from sidecar.observability.tracing import SpansOfOperations
from sidecar.operations.trace_context import LOGGED, NO_TRACE, TraceContext, trace_context

TRACE, SPAN = "ab" * 16, "cd" * 8
SENT = (("traceparent", f"00-{TRACE}-{SPAN}-01"),)
BIND = "/subagents.dispatch.v1.DispatchService/BindTurn"


def lines_of_each(kind: Literal["text", "json"], parent: TraceContext) -> list[str]:
    """Return lines of the sidecar, of a library, and of a span, written by a task that works for a trace."""
    out = io.StringIO()
    with logging_to(out, kind, "info", Redactor()):
        known = LOGGED.set(parent)
        StructuredLog("test").info("test.event", "something happened", slot="shop")
        logging.getLogger("library").warning("as libraries do")
        StructuredLog(ALWAYS).info("sidecar.span", "BindTurn", trace_id="12", span_id="34")
        LOGGED.reset(known)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("parent", "ids"), [(NO_TRACE, (None, None)), (trace_context(SENT[0][1], ""), (TRACE, SPAN))], ids=["none", "sent"]
)
def test_lines_name_the_trace_that_the_task_works_for(parent: TraceContext, ids: tuple[str | None, str | None]) -> None:
    """Those of libraries, too; the line of a span has the ids of that span. Without a trace no other line has any."""
    said = [json.loads(line) for line in lines_of_each("json", parent)]
    assert [(line.get("trace_id"), line.get("span_id")) for line in said] == [ids, ids, ("12", "34")]


def test_the_ids_stand_at_the_end_of_a_line_for_people() -> None:
    """Behind the fields of the event."""
    first = lines_of_each("text", trace_context(SENT[0][1], ""))[0]
    assert first.endswith(f"something happened slot=shop trace_id={TRACE} span_id={SPAN}")


async def test_a_call_is_logged_under_the_trace_that_its_client_sent() -> None:
    """A lane is not: it lasts for many turns."""
    found = {method: await _trace_of_call(method) for method in (BIND, LANE)}
    assert found == {BIND: SENT[0][1], LANE: ""}


async def _trace_of_call(method: str) -> str:
    async def handler(_: Any) -> str:
        return LOGGED.get().traceparent

    LOGGED.set(NO_TRACE)
    details: Any = SimpleNamespace(method=method, invocation_metadata=SENT)
    traceparent: str = await LogTraces().intercept_service(handler, details)
    return traceparent


@pytest.mark.parametrize(
    "around", [operation_trace, SpansOfOperations(TracerProvider().get_tracer("test"))], ids=["without spans", "spans"]
)
def test_an_operation_of_a_lane_is_logged_under_its_own_trace(
    around: Callable[[str, Any], AbstractContextManager[Callable[[StatusCode, str], None]]],
) -> None:
    """The client's span, or with gRPC spans the one that is made below it."""
    LOGGED.set(NO_TRACE)
    with around(BIND, SENT) as end_with:
        trace = LOGGED.get()
        end_with(StatusCode.NOT_FOUND, "nothing")
    assert trace.trace_id == TRACE
    assert (trace.span_id == SPAN) is (around is operation_trace)
