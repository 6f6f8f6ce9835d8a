"""What an operator names as `module:factory`, for hosts and for the sidecar's settings alike."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from langgraph.pregel import Pregel

from sidecar_runner_langchain.card_tools import LocalTool
from sidecar_runner_langchain.models import model_of
from sidecar_runner_langchain.runtime import AgentLimits, AgentRuntime


def runtime_from(
    *,
    graphs: Sequence[str] = (),
    models: str | None = None,
    tools: Sequence[str] = (),
    limits: AgentLimits | None = None,
) -> AgentRuntime:
    """Return a runtime made of named factories, each called once, without arguments.

    Args:
        graphs: each returns compiled graphs by slot.
        models: returns a function that makes the model of a card; None: as the cards say.
        tools: each returns async functions of local tools by tool id.
        limits: how far an agent may go.

    Raises:
        ValueError: a name is not `module:factory`, names nothing, or the factory returns something else.
    """
    merged_graphs: dict[str, Pregel[Any, Any, Any, Any]] = {}
    for name in graphs:
        merged_graphs |= _mapping(name, "graphs", lambda made: isinstance(made, Pregel))
    local: dict[str, LocalTool] = {}
    for name in tools:
        local |= _mapping(name, "async functions", iscoroutinefunction)
    maker = model_of if models is None else made_by(models)
    if not callable(maker):
        raise ValueError(f"{models} does not return a function that makes models")
    return AgentRuntime(models=maker, local_tools=local, graphs=merged_graphs, limits=limits)


def made_by(name: str) -> Any:
    """Call a factory by its name.

    Raises:
        ValueError: it is not there.
    """
    module, colon, factory = name.partition(":")
    if not colon or not module or not factory:
        raise ValueError(f"{name!r} is not of the form module:factory")
    try:
        found = getattr(import_module(module), factory)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name} cannot be loaded: {error}") from None
    return found()


def _mapping(name: str, what: str, is_one: Callable[[Any], bool]) -> dict[str, Any]:
    made = made_by(name)
    if not isinstance(made, Mapping) or not all(is_one(each) for each in made.values()):
        raise ValueError(f"{name} does not return {what} by name")
    return dict(made)
