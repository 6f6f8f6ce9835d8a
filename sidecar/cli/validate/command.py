"""Implements `sidecar validate DIR`: checks a configuration as a running sidecar does. Source: PC1-D-49, TN-45."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from msgspec.structs import asdict

from sidecar.cli.validate.costs import agent_costs, cost_lines, cost_object, scaled, sub_agent_tokens, tool_lines
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.cards.costs import AgentCost
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.core.identifiers import DefinitionId
from sidecar.settings import Settings
from sidecar.settings.name_checks import invalid_targets, missing_targets, names_of, unknown_names

VALID: Final = 0
INVALID: Final = 1
"""Exit codes."""
NAMED_AT_MOST: Final = 8
"""The most sub-agents that one note names."""


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """The options of a validation.

    Attributes:
        as_json: print one JSON object instead of lines.
        costs: print the cost of a turn, too; JSON always contains it.
        strict: warnings and advice cause exit code 1, too.
        settings: settings of the sidecar; definitions that they name must exist.
    """

    as_json: bool = False
    costs: bool = False
    strict: bool = False
    settings: Settings | None = None


def validate(root: Path, options: ValidateOptions, load: Callable[[Path], LoadedCatalogue], out: TextIO) -> int:
    """Print the problems of the configuration in `root`, advice, and the list of its definitions.

    Args:
        root: the folder that holds `agent_config.yaml`.
        options: the options of the command.
        load: reads a configuration, as the sidecar does.
        out: where to print.

    Returns:
        The exit code: 1 if the configuration has errors or the settings do not fit it, or, with `strict`, if there is
        any warning or advice; otherwise 0.
    """
    loaded = load(root)
    settings_problems = _problems_of_settings(options.settings, loaded)
    if options.as_json:
        json.dump(_as_object(loaded) | {"settings": settings_problems}, out, indent=2)
        out.write("\n")
    else:
        out.writelines(problem.render() + "\n" for problem in (*loaded.problems, *loaded.advice))
        out.writelines(f"settings: {line}\n" for line in settings_problems)
        out.writelines(line + "\n" for line in tool_lines(loaded))
        # A configuration with errors has no catalogue.
        if options.costs and loaded.catalogue is not None:
            out.writelines(line + "\n" for line in cost_lines(loaded.catalogue, loaded.prompt_tokens))
        if loaded.catalogue is not None and (unflagged := _unflagged(loaded.catalogue)):
            out.write(_note_on(unflagged) + "\n")
        misfits = (
            f"; the settings do not fit: {_counted(len(settings_problems), 'problem')}" if settings_problems else ""
        )
        out.write(f"{_summary(loaded, strict=options.strict)}{misfits}\n")
    # With such settings a sidecar does not start, or every call of some sub-agent fails.
    if loaded.catalogue is None or settings_problems:
        return INVALID
    return INVALID if options.strict and (loaded.problems or loaded.advice) else VALID


def _problems_of_settings(settings: Settings | None, loaded: LoadedCatalogue) -> list[str]:
    """Return where the settings do not fit the definitions: unknown names, and missing or invalid targets."""
    # Definitions with errors have no names to compare with.
    if settings is None or loaded.catalogue is None:
        return []
    catalogue = loaded.catalogue
    wrong = (*unknown_names(settings, names_of(catalogue)), *invalid_targets(settings, catalogue))
    return [*wrong, *missing_targets(settings, catalogue)]


def _unflagged(catalogue: Catalogue) -> list[str]:
    """Return the sub-agents in any `sub_agents` that name no flag and are not deprecated. Source: PF1-D-75.

    A definition that serves users already needs no flag, but the configuration does not show whether it does.
    """
    listed = {slot for card in catalogue.cards.values() for slot in card.definition.sub_agents}
    listed_definitions = (card.definition for card in catalogue.cards.values() if card.definition.slot in listed)
    return [each.id for each in listed_definitions if each.enabled_via_flag is None and not each.deprecated]


def _note_on(unflagged: list[str]) -> str:
    """Return advice, not an error: the configuration alone does not show whether an entry is new to a sidecar."""
    names = ", ".join(unflagged[:NAMED_AT_MOST]) + (", …" if len(unflagged) > NAMED_AT_MOST else "")
    return (
        f"note: no enabled_via_flag: {names}; without the flag, an entry that is new to a sidecar starts at dev and "
        "serves no user (docs/lifecycle.md)"
    )


def _summary(loaded: LoadedCatalogue, *, strict: bool) -> str:
    warnings = _counted(len(loaded.problems) - len(loaded.errors), "warning")
    if loaded.catalogue is None:
        return f"invalid: {_counted(len(loaded.errors), 'error')}, {warnings}"
    cards = loaded.catalogue.cards.values()
    orchestrators = _counted(sum(card.definition.is_orchestrator for card in cards), "orchestrator")
    agents = _counted(len(cards), "agent")
    tools = _counted(len(loaded.catalogue.tools), "tool")
    advice = f", {_counted(len(loaded.advice), 'piece')} of advice" if loaded.advice else ""
    word = "not valid (--strict)" if strict and (loaded.problems or loaded.advice) else "valid"
    return f"{word}: {agents} ({orchestrators}), {tools}, {warnings}{advice}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _as_object(loaded: LoadedCatalogue) -> dict[str, Any]:
    remarks = (*loaded.problems, *loaded.advice)
    problems = [asdict(problem) | {"message": problem.render()} for problem in remarks]
    return {"valid": loaded.catalogue is not None, "problems": problems, "agents": _agents(loaded, loaded.catalogue)}


def _agents(loaded: LoadedCatalogue, catalogue: Catalogue | None) -> list[dict[str, Any]]:
    if catalogue is None:
        return []
    costs = agent_costs(catalogue, loaded.prompt_tokens)
    return [_agent(card, catalogue, costs) | _tool_tokens(card, loaded) for card in catalogue.cards.values()]


def _tool_tokens(card: Card, loaded: LoadedCatalogue) -> dict[str, Any]:
    of_sub_agents = sub_agent_tokens(card, loaded)
    more = {"estimated_tokens_of_sub_agents": scaled(of_sub_agents)} if of_sub_agents else {}
    return {"estimated_tool_tokens": dict(loaded.tool_tokens[card.definition.id])} | more


def _agent(card: Card, catalogue: Catalogue, costs: dict[DefinitionId, AgentCost]) -> dict[str, Any]:
    return {
        "id": card.definition.id,
        "slot": card.definition.slot,
        "vertical": card.definition.vertical,
        "digest": card.digest,
        "commit": card.commit,
        "deprecated": card.definition.deprecated,
        "enabled_via_flag": card.definition.enabled_via_flag,
        "model": card.model.id,
        "tools": [tool.id for tool in card.tools],
        "prompt_blocks": [block.id for block in card.blocks],
        "sub_agents": list(card.definition.sub_agents),
        "estimated_prompt_tokens": costs[card.definition.id].prompt_tokens,
        "estimated_cost": cost_object(card, catalogue, costs),
    }
