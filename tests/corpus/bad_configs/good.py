"""The small good configuration that every bad one is made from, and how a case changes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CONFIG: Final = "agent_config.yaml"
BLOCKS: Final = "prompts/components"

AGENT_CONFIG: Final = """\
models:
  - id: nano
    provider_model: nano-1
    context_window: 10000
  - id: single
    provider_model: single-1
    context_window: 10000
    parallel_tool_calls: false
tools:
  - id: search_offers
    description: Finds offers.
    endpoint: http://127.0.0.1:8480/v1/enrich
    domain_type: offers
    enricher_id: offer_search
    operation: read
    payload_schema: {type: object}
  - id: render_offer_card
    description: Shows an offer.
agents:
  - id: concierge
    description: Leads the conversation.
    role: orchestrator
    model: nano
    prompt_blocks: [instructions-routing]
    sub_agents: [shop]
  - id: shop
    description: Finds offers.
    role: native
    model: nano
    tools: [search_offers, render_offer_card]
    prompt_blocks: [persona-shop]
"""


def block(name: str, owner: str = "platform", kind: str = "persona", extra: str = "") -> str:
    """Return the text of a block file."""
    return f"type: {kind}\nname: {name}\nowner: {owner}\n{extra}instructions: Text of {name}.\n"


GOOD: Final[Mapping[str, str]] = {
    CONFIG: AGENT_CONFIG,
    f"{BLOCKS}/platform/persona-fetch-assistant.yaml": block("persona-fetch-assistant"),
    f"{BLOCKS}/platform/format-conversational.yaml": block("format-conversational", kind="format"),
    f"{BLOCKS}/platform/safety-base.yaml": block("safety-base", kind="safety"),
    f"{BLOCKS}/platform/instructions-routing.yaml": block("instructions-routing", kind="instructions"),
    f"{BLOCKS}/shop/persona-shop.yaml": block("persona-shop", "shop"),
}


@dataclass(frozen=True)
class BadConfig:
    """One case.

    Attributes:
        name: says what is wrong; what is printed about it stands under that name in `expected.txt`.
        edits: (old, new) in `agent_config.yaml`; each old text must be there.
        files: content by path, added to or instead of the good ones; None takes a file away; bytes go in as they are.
    """

    name: str
    edits: Sequence[tuple[str, str]] = ()
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)


def edited(*edits: tuple[str, str]) -> str:
    """Return the good `agent_config.yaml` with the first occurrence of each old text replaced."""
    text = AGENT_CONFIG
    for old, new in edits:
        assert old in text, f"the case edits what is not there: {old}"
        text = text.replace(old, new, 1)
    return text


def write(root: Path, files: Mapping[str, str | bytes | None] | None = None, *edits: tuple[str, str]) -> Path:
    """Write the good configuration, changed, below `root`, and return `root`."""
    content: dict[str, str | bytes | None] = {**GOOD, CONFIG: edited(*edits), **(files or {})}
    for path, text in content.items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root
