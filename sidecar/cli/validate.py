"""`sidecar validate DIR`: check a configuration as the sidecar would, without one running. Source: PC1-D-49, TN-45."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TextIO

from sidecar.core.definitions.card import Card, Catalogue
from sidecar.core.definitions.resolving import Loaded

VALID: Final = 0
INVALID: Final = 1


def validate(root: Path, as_json: bool, load: Callable[[Path], Loaded], out: TextIO) -> int:
    """Print every problem of the configuration below `root` and what it defines.

    Args:
        root: the folder that holds `agent_config.yaml`.
        as_json: print one JSON object instead of lines.
        load: reads a configuration; the sidecar's own loader.
        out: where to print.

    Returns:
        The exit code: 0 if it would load, warnings or not; 1 if it would not.
    """
    loaded = load(root)
    if as_json:
        json.dump(_as_object(loaded), out, indent=2)
        out.write("\n")
    else:
        out.writelines(problem.render() + "\n" for problem in loaded.problems)
        out.write(_summary(loaded) + "\n")
    return INVALID if loaded.catalogue is None else VALID


def _summary(loaded: Loaded) -> str:
    warnings = _counted(len(loaded.problems) - len(loaded.errors), "warning")
    if loaded.catalogue is None:
        return f"invalid: {_counted(len(loaded.errors), 'error')}, {warnings}"
    cards = loaded.catalogue.cards.values()
    orchestrators = _counted(sum(card.definition.is_orchestrator for card in cards), "orchestrator")
    agents = _counted(len(cards), "agent")
    tools = _counted(len(loaded.catalogue.tools), "tool")
    return f"valid: {agents} ({orchestrators}), {tools}, {warnings}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _as_object(loaded: Loaded) -> dict[str, Any]:
    problems = [asdict(problem) | {"message": problem.render()} for problem in loaded.problems]
    return {"valid": loaded.catalogue is not None, "problems": problems, "agents": _agents(loaded, loaded.catalogue)}


def _agents(loaded: Loaded, catalogue: Catalogue | None) -> list[dict[str, Any]]:
    cards = catalogue.cards.values() if catalogue is not None else ()
    return [_agent(card, loaded.prompt_tokens[card.definition.id]) for card in cards]


def _agent(card: Card, tokens: int) -> dict[str, Any]:
    return {
        "id": card.definition.id,
        "slot": card.definition.slot,
        "vertical": card.definition.vertical,
        "digest": card.digest,
        "commit": card.commit,
        "deprecated": card.definition.deprecated,
        "model": card.model.id,
        "tools": [tool.id for tool in card.tools],
        "prompt_blocks": [block.id for block in card.blocks],
        "sub_agents": list(card.definition.sub_agents),
        "estimated_prompt_tokens": tokens,
    }
