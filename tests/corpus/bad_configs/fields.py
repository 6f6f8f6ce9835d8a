"""Fields that are missing, misspelt, of the wrong kind or out of range."""

from typing import Final

from tests.corpus.bad_configs.good import BLOCKS, BadConfig, block

_SHOP: Final = "[persona-shop]"
_MODEL: Final = "context_window: 10000\n  - id: single"
_TOOL: Final = "    description: Shows an offer.\n"


def _shop(line: str) -> list[tuple[str, str]]:
    """Return the edit that adds a line to the definition `shop`."""
    return [(_SHOP, f"{_SHOP}\n    {line}")]


CASES: Final = (
    BadConfig("no id", edits=[("  - id: shop\n    description", "  - description")]),
    BadConfig("an id that is a number", edits=[("- id: shop\n", "- id: 7\n")]),
    BadConfig("an id with capitals and blanks", edits=[("- id: shop\n", "- id: My Shop\n")]),
    BadConfig("an id that walks up", edits=[("- id: shop\n", "- id: ../shop\n")]),
    BadConfig("an id of 61 characters", edits=[("- id: shop\n", f"- id: {'a' * 61}\n")]),
    BadConfig("an id with a line break and a colour", edits=[("- id: shop\n", '- id: "a\\nb\\u00e9"\n')]),
    BadConfig("no description", edits=[("    description: Finds offers.\n    role", "    role")]),
    BadConfig("a blank description", edits=[("description: Finds offers.\n    role", 'description: "  "\n    role')]),
    BadConfig("a role that does not exist", edits=[("role: native", "role: natve")]),
    BadConfig("no model", edits=[("    model: nano\n    tools", "    tools")]),
    BadConfig("a field that does not exist", edits=_shop("prompt_block: [persona-shop]")),
    BadConfig("a section that does not exist", edits=[("agents:\n", "agent: []\nagents:\n")]),
    BadConfig(
        "tools that are not a list", edits=[("tools: [search_offers, render_offer_card]", "tools: search_offers")]
    ),
    BadConfig("an entry that is not a mapping", edits=[("agents:\n", "agents:\n  - shop2\n")]),
    BadConfig("agents that are a mapping", files={"agent_config.yaml": "agents: {shop: {model: nano}}\n"}),
    BadConfig("a time without its unit", edits=_shop("limits: {attempt_timeout: 90}")),
    BadConfig("a time of nothing", edits=_shop("limits: {idle_timeout: 0s}")),
    BadConfig("limits below their least", edits=_shop("limits: {max_retries: -1, tool_calls: 0}")),
    BadConfig("a fraction where a whole number belongs", edits=_shop("tuning: {max_output_tokens: 1.5}")),
    BadConfig("tuning that is misspelt", edits=_shop("tuning: {resoning_effort: low}")),
    BadConfig("text where a truth value belongs", edits=_shop('deprecated: "true"')),
    BadConfig("deprecated twice, and differently", edits=_shop("deprecated: false\n    status: deprecated")),
    BadConfig("a status that does not exist", edits=_shop("status: retired")),
    BadConfig("another definition's flag", edits=_shop("enabled_via_flag: ai_assistant_subagent_rewards")),
    BadConfig("arguments that are no schema", edits=_shop("arguments: {type: objekt}")),
    BadConfig("arguments that are no object", edits=_shop("arguments: {type: array}")),
    BadConfig(
        "a schema that reaches outside",
        edits=_shop("arguments: {type: object, properties: {a: {$ref: 'http://evil.example/schema.json'}}}"),
    ),
    BadConfig(
        "a pattern that looks around, which cannot run in linear time",
        edits=_shop("arguments: {type: object, properties: {a: {type: string, pattern: '(?=x)x'}}}"),
    ),
    BadConfig("a context window of nothing", edits=[(_MODEL, _MODEL.replace("10000", "0"))]),
    BadConfig("a price too fine", edits=[(_MODEL, "price_per_million_input: 0.0000001\n    " + _MODEL)]),
    BadConfig("no such operation", edits=[("operation: read", "operation: reads")]),
    BadConfig("a price below zero", edits=[(_MODEL, "price_per_million_input: -0.5\n    " + _MODEL)]),
    BadConfig(
        "a password in an address", edits=[(_MODEL, "base_url: https://me:secret@llm.example/v1\n    " + _MODEL)]
    ),
    BadConfig("a tool that looks like a sub-agent", edits=[("- id: render_offer_card", "- id: ask_offers")]),
    BadConfig("half a typing key", edits=[("    enricher_id: offer_search\n", "")]),
    BadConfig("a data-backed tool that leads nowhere", edits=[("    endpoint: http://127.0.0.1:8480/v1/enrich\n", "")]),
    BadConfig(
        "a data-backed tool whose payload may be anything",
        edits=[("payload_schema: {type: object}", "payload_schema: {}")],
    ),
    BadConfig("a data service without a scheme", edits=[("http://127.0.0.1:8480/v1", "127.0.0.1:8480/v1")]),
    BadConfig(
        "a gRPC data service with a URL", edits=[("    endpoint: http:", "    connector: grpc\n    endpoint: http:")]
    ),
    BadConfig("a host that is a path", edits=_shop("runner: {target: /run/shop.sock}")),
    BadConfig("a host without a scheme", edits=_shop("runner: {kind: grpc, target: 'localhost:50051'}")),
    BadConfig("a host whose scheme is misspelt", edits=_shop("runner: {kind: grpc, target: 'unxi:/run/shop.sock'}")),
    BadConfig("a local tool with an endpoint", edits=[(_TOOL, _TOOL + "    endpoint: http://a.example/\n")]),
    BadConfig(
        "a version that is not semver",
        edits=[("    domain_type: offers\n", "    domain_type: offers\n    version: '1.0'\n")],
    ),
    BadConfig(
        "a block of no known type",
        files={f"{BLOCKS}/shop/persona-shop.yaml": block("persona-shop", "shop", "persna")},
    ),
    BadConfig(
        "a block without owner",
        files={f"{BLOCKS}/shop/persona-shop.yaml": "type: persona\nname: persona-shop\ninstructions: Hello.\n"},
    ),
    BadConfig(
        "a block behind a flag without the prefix",
        files={f"{BLOCKS}/shop/x.yaml": block("persona-x", "shop", extra="feature_gated: my_flag\n")},
    ),
    BadConfig(
        "capabilities without can and cannot",
        files={f"{BLOCKS}/shop/c.yaml": block("capabilities-shop", "shop", "capabilities")},
    ),
    BadConfig("a block file that is a list", files={f"{BLOCKS}/shop/c.yaml": "- type: persona\n"}),
    BadConfig("an empty block file", files={f"{BLOCKS}/shop/c.yaml": ""}),
)
