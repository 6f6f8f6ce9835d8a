"""Builds configurations as the parser would hand them over, without files."""

import copy
from typing import Any, Final

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.files.documents import Document
from sidecar.core.definitions.files.names import REQUIRED_BLOCKS
from sidecar.core.definitions.files.registries import BLOCKS_FOLDER, CONFIG_FILE
from sidecar.core.definitions.resolve import LoadedCatalogue, load_documents
from sidecar.core.identifiers import DefinitionId

CONFIG: Final[dict[str, Any]] = {
    "models": [{"id": "nano", "provider_model": "nano-1", "context_window": 100_000}],
    "tools": [
        {
            "id": "search_offers",
            "description": "Finds offers.",
            "endpoint": "http://127.0.0.1:8480/v1/enrich",
            "domain_type": "offers",
            "enricher_id": "offer_search",
            "operation": "read",
            "payload_schema": {"type": "object"},
        },
        {"id": "render_offer_card", "description": "Shows an offer."},
    ],
    "agents": [
        {
            "id": "concierge",
            "description": "Leads.",
            "role": "orchestrator",
            "model": "nano",
            "prompt_blocks": ["gated"],
            "sub_agents": ["shop"],
        },
        {
            "id": "shop",
            "description": "Finds offers.",
            "role": "native",
            "model": "nano",
            "tools": ["search_offers", "render_offer_card"],
            "prompt_blocks": ["persona-shop", "gated"],
        },
    ],
}


class Configuration:
    """A good configuration to change and load."""

    def __init__(self) -> None:
        self.config = copy.deepcopy(CONFIG)
        self.blocks: dict[str, dict[str, Any]] = {
            name: {"type": "persona", "name": name, "owner": "platform", "instructions": f"Text of {name}."}
            for name in (*REQUIRED_BLOCKS, "persona-shop", "gated")
        }
        self.blocks["gated"]["feature_gated"] = "ai_assistant_extra"

    def agent(self, name: str) -> dict[str, Any]:
        """Return the entry, to change it."""
        found: dict[str, Any] = next(agent for agent in self.config["agents"] if agent["id"] == name)
        return found

    def load(self, **rules: Any) -> LoadedCatalogue:
        """Load it as it is now, with other arguments of `load_documents`."""
        documents = [Document(CONFIG_FILE, self.config, {(): 1}, {})]
        for name, block in self.blocks.items():
            documents.append(Document(f"{BLOCKS_FOLDER}/{name}.yaml", block, {(): 1}, {}))
        return load_documents(documents, **rules)

    def catalogue(self) -> Catalogue:
        """Load it and expect no error."""
        loaded = self.load()
        assert loaded.catalogue is not None, [problem.render() for problem in loaded.problems]
        return loaded.catalogue

    def card(self, name: str = "shop") -> Card:
        """Return one card."""
        return self.catalogue().cards[DefinitionId(name)]
