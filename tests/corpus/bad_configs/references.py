"""Entries that refer to what is not there, or to each other in a way that cannot be served."""

from typing import Final

from tests.corpus.bad_configs.good import BLOCKS, BadConfig, block

CASES: Final = (
    BadConfig("a model that is not registered", edits=[("model: nano\n    tools", "model: nanno\n    tools")]),
    BadConfig("a tool that is not registered", edits=[("tools: [search_offers,", "tools: [search_ofers,")]),
    BadConfig("a prompt block that is not registered", edits=[("[persona-shop]", "[persona-shop, persona-shp]")]),
    BadConfig("a block like nothing that is registered", edits=[("[persona-shop]", "[zzz]")]),
    BadConfig("a sub-agent that nothing fills", edits=[("sub_agents: [shop]", "sub_agents: [shop, shopp]")]),
    BadConfig("a sub-agent listed by its id, not its slot", edits=[("- id: shop\n", "- id: shop\n    slot: store\n")]),
    BadConfig("a sub-agent listed twice", edits=[("sub_agents: [shop]", "sub_agents: [shop, shop]")]),
    BadConfig("an orchestrator that lists itself", edits=[("sub_agents: [shop]", "sub_agents: [shop, concierge]")]),
    BadConfig(
        "a circle of two", edits=[("tools: [search_offers", "sub_agents: [concierge]\n    tools: [search_offers")]
    ),
    BadConfig("an orchestrator whose model makes one call at a time", edits=[("model: nano\n", "model: single\n")]),
    BadConfig("the same agent id twice", edits=[("- id: shop\n", "- id: concierge\n")]),
    BadConfig("the same model id twice", edits=[("- id: single\n", "- id: nano\n")]),
    BadConfig("the same tool id twice", edits=[("- id: render_offer_card\n", "- id: search_offers\n")]),
    BadConfig(
        "the same block name in two folders", files={f"{BLOCKS}/rewards/p.yaml": block("persona-shop", "rewards")}
    ),
    BadConfig("a required block is missing", files={f"{BLOCKS}/platform/safety-base.yaml": None}),
    BadConfig(
        "a required block is misspelt in its file",
        files={f"{BLOCKS}/platform/safety-base.yaml": block("safty-base", kind="safety")},
    ),
    BadConfig(
        "a required block behind a flag",
        files={
            f"{BLOCKS}/platform/safety-base.yaml": block(
                "safety-base", kind="safety", extra="feature_gated: ai_assistant_x\n"
            )
        },
    ),
    BadConfig(
        "a required block that names the cap",
        files={
            f"{BLOCKS}/platform/safety-base.yaml": block("safety-base", kind="safety") + "  At most {{fan_out_cap}}.\n"
        },
    ),
    BadConfig(
        "a placeholder that does not exist",
        files={f"{BLOCKS}/platform/x.yaml": block("x") + "  At most {{fan_out_kap}}, {{ fan_out_cap }}, {{max}}.\n"},
    ),
    BadConfig(
        "capabilities in a persona", files={f"{BLOCKS}/shop/x.yaml": block("x", "shop") + "  <can_do>A</can_do>\n"}
    ),
    BadConfig(
        "capabilities in the wrong order",
        files={
            f"{BLOCKS}/shop/x.yaml": block("x", "shop", "capabilities")
            + "  <cannot_do>A</cannot_do> <can_do>B</can_do>\n"
        },
    ),
    BadConfig(
        "capabilities said twice",
        files={
            f"{BLOCKS}/shop/x.yaml": block("x", "shop", "capabilities")
            + "  <can_do>A</can_do> <cannot_do>B</cannot_do> <can_do>C</can_do>\n"
        },
    ),
    BadConfig(
        "capabilities with a tag of another spelling",
        files={
            f"{BLOCKS}/shop/x.yaml": block("x", "shop", "capabilities")
            + "  <can_do>A</can_do> <cannot-do>B</cannot-do>\n"
        },
    ),
    BadConfig(
        "capabilities with nothing in them",
        files={
            f"{BLOCKS}/shop/x.yaml": block("x", "shop", "capabilities")
            + "  <can_do> </can_do> <cannot_do>B</cannot_do>\n"
        },
    ),
    BadConfig(
        "the cap in a vertical's block",
        files={f"{BLOCKS}/shop/x.yaml": block("x", "shop") + "  At most {{fan_out_cap}}.\n"},
    ),
    BadConfig(
        "the cap in a sub-agent's prompt",
        files={f"{BLOCKS}/platform/x.yaml": block("x") + "  At most {{fan_out_cap}}.\n"},
        edits=[("[persona-shop]", "[persona-shop, x]")],
    ),
    BadConfig(
        "a required block in a vertical's hands",
        files={
            f"{BLOCKS}/platform/safety-base.yaml": None,
            f"{BLOCKS}/shop/safety-base.yaml": block("safety-base", "shop", "safety"),
        },
    ),
    BadConfig("a block in another owner's folder", files={f"{BLOCKS}/rewards/x.yaml": block("persona-x", "shop")}),
    BadConfig(
        "a component that no tool renders",
        edits=[("[persona-shop]", "[persona-shop]\n    components: {render_offer_crd: {type: object}}")],
    ),
    BadConfig(
        "two tools that disagree about one payload",
        edits=[
            (
                "agents:\n",
                "  - {id: more_offers, description: More., endpoint: 'http://a.example/', domain_type: offers, "
                "enricher_id: offer_search, operation: read, payload_schema: {type: array}}\nagents:\n",
            )
        ],
    ),
    BadConfig(
        "a prompt over half of the context window",
        files={f"{BLOCKS}/shop/persona-shop.yaml": block("persona-shop", "shop") + "  " + "word " * 5000 + "\n"},
    ),
)
