"""What a data service's `status` makes of a call: the whole way from the envelope to the outcome."""

from collections.abc import AsyncGenerator

import pytest

from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import Script, ScriptedRunner
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement


def asks(times: int, *, lacks: bool) -> Script:
    """Ask for data so often, say what came, and finish; `lacks`: say that data was missing."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for _ in range(times):
            result = await runner.call_tool(request.grant, "offers", "{}")
            yield NarrationPart("nothing " if result.payload_json is None else "data ")
        yield RunFinished(lacks)

    return script


@requirement("PC2-T-6")
@pytest.mark.parametrize(
    ("statuses", "lacks", "said", "outcome"),
    [
        ("ok", False, "data ", "SUCCEEDED"),
        ("ok", True, "data ", "DEGRADED"),
        ("partial", False, "data ", "SUCCEEDED"),
        ("partial", True, "data ", "DEGRADED"),
        ("error", False, "nothing ", "DEGRADED"),
        ("error", True, "nothing ", "DEGRADED"),
        ("ok error", False, "data nothing ", "SUCCEEDED"),
        ("error partial", False, "nothing data ", "SUCCEEDED"),
        ("error error", False, "nothing nothing ", "DEGRADED"),
    ],
)
async def test_each_status_of_an_envelope_has_its_outcome(statuses: str, lacks: bool, said: str, outcome: str) -> None:
    """`ok` and `partial` are data; without any the call is degraded, whatever the sub-agent says of it."""
    left = statuses.split()
    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        sidecar.runner.use("shop", asks(len(left), lacks=lacks))
        sidecar.connector.reply = lambda call: an_envelope(call, status=left.pop(0))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

    found = reply.of("call-1")
    assert (reply.outcomes, found.narration) == ([outcome], said)
    assert found.data_unavailable is (outcome == "DEGRADED")
    assert found.status.reason == (ErrorReason.ERROR_REASON_DATA_UNAVAILABLE if found.data_unavailable else 0)
