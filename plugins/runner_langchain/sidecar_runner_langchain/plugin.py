"""Registers runner `langchain`, which runs cards inside the sidecar."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import RunnerConfig, RunnerSpec
from sidecar_runner_langchain.factories import runtime_from
from sidecar_runner_langchain.in_process import LangChainRunner
from sidecar_runner_langchain.runtime import AgentLimits

SETTINGS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "graphs": {
            "type": "array",
            "items": {"type": "string"},
            "description": "`module:factory` names; each returns compiled graphs by slot.",
        },
        "tools": {
            "type": "array",
            "items": {"type": "string"},
            "description": "`module:factory` names; each returns async functions of local tools by id.",
        },
        "models": {
            "type": "string",
            "description": "`module:factory`; returns a function that makes the model of a card.",
        },
        "most_steps": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Steps of one run's graph."},
    },
    "additionalProperties": False,
}


def langchain_runner(config: RunnerConfig) -> LangChainRunner:
    """Return a runner.

    Raises:
        ValueError: a factory is not there or returns something else.
    """
    settings = config.settings
    runtime = runtime_from(
        graphs=settings.get("graphs", ()),
        models=settings.get("models"),
        tools=settings.get("tools", ()),
        limits=AgentLimits(most_steps=settings.get("most_steps", AgentLimits().most_steps)),
    )
    return LangChainRunner(runtime.run, config.gateway_address)


@hookimpl
def sidecar_runners() -> Sequence[RunnerSpec]:
    """Offer `langchain`."""
    return [
        RunnerSpec(
            name="langchain",
            contract="runner/1",
            summary="runs any card with LangChain inside this process",
            config_schema=SETTINGS,
            capabilities=frozenset({"cancels_agent", "usage"}),
            factory=langchain_runner,
        )
    ]
