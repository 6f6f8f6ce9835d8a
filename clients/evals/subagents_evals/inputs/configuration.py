"""Reads the measured configuration, and writes a copy in which the measured definitions serve every user."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import yaml
from langchain_core.messages.ai import UsageMetadata

from subagents_langchain import Price

FILE: Final = "agent_config.yaml"
MANIFEST: Final = "evaluation_manifest.yaml"
SETS: Final = "evals"
VALIDATION_SECONDS: Final = 60.0
MOST_PROBLEMS: Final = 5


class UnusableConfiguration(ValueError):
    """The configuration cannot be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one measured sub-agent; gates check `digest` and `commit`."""

    id: str
    slot: str
    vertical: str
    digest: str
    commit: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration that can be measured.

    Attributes:
        folder: the folder that contains `agent_config.yaml`.
        content: content of this file, as plain values.
        definitions: the sub-agents of the surface, one for each slot, in the orchestrator's order.
        model: registry key of the orchestrator's model.
        prices: name of a model, at the provider or in the registry, to its price.
    """

    folder: Path
    content: Mapping[str, Any]
    definitions: Sequence[Definition]
    model: str
    prices: Mapping[str, Price]

    @property
    def slots(self) -> Sequence[str]:
        """The slots of the surface."""
        return [one.slot for one in self.definitions]

    def cost(self, used: Mapping[str, UsageMetadata]) -> float | None:
        """Return the cost of tokens, in dollars. Tokens from a provider's cache have the full price.

        Args:
            used: name of a model to its tokens.

        Returns:
            None if a model has no price.
        """
        total = Decimal(0)
        for model, tokens in used.items():
            price = self._price(model)
            if price is None:
                return None
            total += price.input_per_million * tokens["input_tokens"]
            total += price.output_per_million * tokens["output_tokens"]
        return float(total / 1_000_000)

    def _price(self, provider_model: str) -> Price | None:
        """Return the price of a model; for an unknown model, that of the orchestrator's model, or None."""
        known = [name for name in self.prices if provider_model == name or provider_model.startswith(f"{name}-")]
        return self.prices[max(known, key=len)] if known else self.prices.get(self.model)


def read_configuration(folder: Path, candidates: Sequence[str] = ()) -> Configuration:
    """Read a configuration through `sidecar validate`.

    Args:
        folder: the folder that contains `agent_config.yaml`.
        candidates: ids of definitions to measure; a slot without a candidate uses its first definition.

    Raises:
        UnusableConfiguration: the sidecar refuses the configuration, it has no sub-agents, or a candidate is unknown.
    """
    found = _validated(folder)
    content: Mapping[str, Any] = yaml.safe_load((folder / FILE).read_text("utf-8"))
    agents = {str(each["id"]): each for each in found["agents"]}
    orchestrator = next((each for each in found["agents"] if each["sub_agents"]), None)
    if orchestrator is None:
        raise UnusableConfiguration(f"{folder / FILE}: no orchestrator with sub-agents")
    if unknown := sorted(set(candidates) - set(agents)):
        raise UnusableConfiguration(f"--candidate {unknown[0]}: {folder / FILE} has no such definition")
    chosen = []
    for slot in orchestrator["sub_agents"]:
        filling = [each for each in found["agents"] if each["slot"] == slot and not each["sub_agents"]]
        wanted = [each for each in filling if each["id"] in candidates] or filling
        if wanted:
            one = wanted[0]
            commit = str(one["commit"] or "")
            chosen.append(Definition(str(one["id"]), str(slot), str(one["vertical"]), str(one["digest"]), commit))
    return Configuration(folder, content, chosen, str(orchestrator["model"]), _prices(content))


def served_copy(configuration: Configuration, target: Path) -> None:
    """Write a copy in which the chosen definitions, and no others of their slots, serve every user.

    In production, flags and rollouts decide whom they serve. The text that a model reads is unchanged.
    """
    shutil.copytree(configuration.folder, target, ignore=shutil.ignore_patterns(SETS, ".git"))
    chosen = {one.id: one for one in configuration.definitions}
    slots = set(configuration.slots)
    agents = []
    for agent in configuration.content["agents"]:
        if agent["id"] in chosen:
            agents.append({key: value for key, value in agent.items() if key not in {"enabled_via_flag", "deprecated"}})
        elif agent.get("slot", agent["id"]) not in slots:
            agents.append(agent)
    text = yaml.safe_dump({**configuration.content, "agents": agents}, allow_unicode=True, sort_keys=False, width=4096)
    (target / FILE).write_text(text, "utf-8")


def capabilities_of(configuration: Configuration) -> Mapping[str, Sequence[str]]:
    """Return slot to the declared capabilities of its card: the entries of `ownership` and the data-backed tools."""
    data_tools = {str(tool["id"]) for tool in configuration.content.get("tools", ()) if tool.get("endpoint")}
    agents = {str(agent["id"]): agent for agent in configuration.content["agents"]}
    return {
        one.slot: [
            *map(str, agents[one.id].get("ownership") or ()),
            *(str(tool) for tool in agents[one.id].get("tools") or () if tool in data_tools),
        ]
        for one in configuration.definitions
    }


def _validated(folder: Path) -> Mapping[str, Any]:
    if not (folder / FILE).is_file():
        raise UnusableConfiguration(f"{folder / FILE}: no such file; name the folder that holds it")
    command = [sys.executable, "-m", "sidecar", "validate", str(folder), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=VALIDATION_SECONDS, check=False)  # noqa: S603  our own command
        found: Mapping[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise UnusableConfiguration(f"`sidecar validate {folder}` took longer than {VALIDATION_SECONDS:g} s") from None
    except ValueError:
        raise UnusableConfiguration(f"`sidecar validate {folder}` failed:\n{done.stderr or done.stdout}") from None
    if not found["valid"]:
        told = "\n".join(str(one["message"]) for one in found["problems"][:MOST_PROBLEMS])
        raise UnusableConfiguration(f"`sidecar validate {folder}` refuses the configuration:\n{told}")
    return found


def _prices(content: Mapping[str, Any]) -> Mapping[str, Price]:
    prices = {}
    for model in content.get("models", ()):
        given, made = model.get("price_per_million_input"), model.get("price_per_million_output")
        if given is not None and made is not None:
            price = Price(Decimal(str(given)), Decimal(str(made)))
            prices[str(model.get("provider_model", model["id"]))] = price
            prices[str(model["id"])] = price
    return prices
