"""What of `evaluation_manifest.yaml` is tagged for one sub-agent: categories, data sets, judges, results.

Two ways to tag: an item or section that says `sub_agent: <id>`, or one of the other keys of `TAGS`; and a section below
`sub_agents` that is called by the id. What is tagged for several keeps the others. Source: PF1-FR-6c, PF1-D-42.
"""

from collections.abc import Iterator
from typing import Any, Final

TAGS: Final = ("sub_agent", "subagent", "subagent_id", "sub_agent_id", "agent_id")
LISTS: Final = ("sub_agents", "subagents")
Steps = tuple[str | int, ...]


def tagged(value: Any, name: str, at: Steps = ()) -> Iterator[Steps]:
    """Yield the way to everything that goes with `name`; nothing below a place that was yielded itself."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    for step, child in children:
        way = (*at, step)
        if _is_for(child, name) or (at and at[-1] in LISTS and step == name):
            yield way
        elif step in LISTS and isinstance(child, list) and name in child:
            yield from ((*way, number) for number, one in enumerate(child) if one == name)
        else:
            yield from tagged(child, name, way)


def values_in(value: Any) -> Iterator[Any]:
    """Yield everything that a walk meets. Raises `RecursionError` where something holds itself."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from values_in(each)


def _is_for(value: Any, name: str) -> bool:
    """Say whether something is tagged for this one and nobody else."""
    if not isinstance(value, dict):
        return False
    return any(value.get(tag) == name for tag in TAGS) or any(value.get(key) == [name] for key in LISTS)
