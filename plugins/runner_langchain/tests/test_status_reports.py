"""How progress of a card's agent gets to the sidecar: tools announce themselves, and the model may report."""

import logging
from typing import Any

import pytest

from plugins.runner_langchain.tests.support import requests
from plugins.runner_langchain.tests.support.scripted_model import calls, repeats_results, says, scripted
from sidecar.policy.protocols import RunnerError, RunnerEvent, StatusReported, UsageReported
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


@pytest.mark.parametrize(("cached", "told"), [([40, 60], 100), ([None, 60], 60), ([None, None], None)])
async def test_tokens_from_the_providers_cache_are_reported_and_logged(
    cached: list[int | None], told: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Two calls of the model in one attempt, as the provider reports them; one that says nothing adds nothing."""
    caplog.set_level(logging.INFO, "sidecar_runner_langchain")
    steps = [calls(("report_status", {"type": "comparing_offers"}), tokens=(100, 5)), says("Done.", tokens=(120, 8))]
    for step, tokens in zip(steps, cached, strict=True):
        assert step.usage_metadata is not None
        if tokens is not None:
            step.usage_metadata["input_token_details"] = {"cache_read": tokens}
    events = await run(REPORT, *steps)

    assert [event for event in events if isinstance(event, UsageReported)][-1] == UsageReported(220, 13, told)
    (line,) = [entry.getMessage() for entry in caplog.records if "input tokens" in entry.getMessage()]
    from_cache = f"{told or 'unknown'} of them from the provider's cache"
    assert line.endswith(f"used 220 input tokens, {from_cache}, and 13 output tokens")


@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": {"type": {"type": "string"}}, "required": ["type"]}, {"properties": TYPES}],
)
async def test_a_card_whose_types_are_not_listed_cannot_be_run(schema: dict[str, Any]) -> None:
    """No types, any text, or a type that may be left out."""
    with pytest.raises(RunnerError):
        await run(requests.a_local_tool("report_status", **schema), says("Done."))
