"""How progress of a card's agent gets to the sidecar: tools announce themselves, and the model may report."""

from typing import Any

import pytest

from plugins.runner_langchain.tests.support import requests
from plugins.runner_langchain.tests.support.scripted_model import calls, repeats_results, says, scripted
from sidecar.policy.protocols import RunnerError, RunnerEvent, StatusReported
from sidecar_runner_langchain import AgentRuntime
from tests.support.requirement import requirement

TYPES = {"type": {"type": "string", "enum": ["comparing_offers", "still_looking"]}, "store": {"type": "string"}}
REPORT = requests.a_local_tool("report_status", properties=TYPES, required=["type"], additionalProperties=False)


async def run(tool: Any, *script: Any) -> list[RunnerEvent]:
    """Return what the runner reports of an agent with this tool and model."""
    async with requests.running(AgentRuntime(models=lambda card: scripted(*script))) as runner:
        return await requests.events_of(runner, requests.a_request(requests.a_card([tool])))


@requirement("PC1-FR-13a", "PC2-FR-13a")
async def test_a_model_reports_progress_of_the_types_that_its_card_lists() -> None:
    """Type and attributes reach the sidecar before the answer, and the model goes on."""
    report = ("report_status", {"type": "comparing_offers", "store": "Aldi"})
    events = await run(REPORT, calls(report), repeats_results)

    reported = [event for event in events if isinstance(event, StatusReported)]
    assert reported == [StatusReported("comparing_offers", {"store": "Aldi"})]
    assert requests.said(events) == "reported"


@requirement("PC2-FR-13a")
async def test_a_type_that_the_card_does_not_list_is_told_to_the_model_and_never_reported() -> None:
    """Prose in place of a type."""
    events = await run(REPORT, calls(("report_status", {"type": "Comparing all offers!"})), repeats_results)

    assert not [event for event in events if isinstance(event, StatusReported)]
    assert "is not one of" in requests.said(events)


@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": {"type": {"type": "string"}}, "required": ["type"]}, {"properties": TYPES}],
)
async def test_a_card_whose_types_are_not_listed_cannot_be_run(schema: dict[str, Any]) -> None:
    """No types, any text, or a type that may be left out."""
    with pytest.raises(RunnerError):
        await run(requests.a_local_tool("report_status", **schema), says("Done."))
