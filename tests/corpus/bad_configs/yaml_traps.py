"""Text that is not YAML, or YAML that means something else than it looks like, or too much of it."""

from typing import Final

from tests.corpus.bad_configs.good import BLOCKS, CONFIG, BadConfig

_EXTRA: Final = f"{BLOCKS}/shop/extra.yaml"
_LAUGHS: Final = "a: &a [lol, lol]\nb: [*a, *a]\nagents: []\n"

CASES: Final = (
    BadConfig("`no` as an id", edits=[("- id: shop\n", "- id: no\n")]),
    BadConfig(
        "an octal number",
        edits=[("context_window: 10000\n  - id: single", "context_window: 010000\n  - id: single")],
    ),
    BadConfig("a time in base 60", edits=[("[persona-shop]", "[persona-shop]\n    limits: {attempt_timeout: 1:30}")]),
    BadConfig(
        "a date as a criterion", edits=[("[persona-shop]", "[persona-shop]\n    success_criteria: [2031-01-02]")]
    ),
    BadConfig("`yes` as a key", edits=[("[persona-shop]", "[persona-shop]\n    components: {yes: {type: object}}")]),
    BadConfig(
        "a key that stands twice", edits=[("    tools: [search_offers", "    tools: []\n    tools: [search_offers")]
    ),
    BadConfig("a billion laughs", files={CONFIG: _LAUGHS}),
    BadConfig("a merge key", edits=[("agents:\n", "agents:\n  - <<: {id: x}\n")]),
    BadConfig("a tag that makes an object", files={CONFIG: "agents: !!python/object/apply:os.system [true]\n"}),
    BadConfig("nesting without end", files={CONFIG: "agents: " + "[" * 5000}),
    BadConfig("21 levels", files={CONFIG: "agents: " + "[" * 20 + "]" * 20 + "\n"}),
    BadConfig("a second document", files={_EXTRA: "type: persona\n---\ntype: persona\n"}),
    BadConfig("a bracket that does not close", files={_EXTRA: "type: [persona\nname: x\n"}),
    BadConfig("a tab as indentation", files={_EXTRA: "type:\n\tpersona\n"}),
    BadConfig("half a file", files={CONFIG: "agents:\n  - id: shop\n    description: 'Fin"}),
    BadConfig("a NUL", files={_EXTRA: "type: persona\nname: a\0b\n"}),
    BadConfig("an escaped NUL", edits=[("- id: shop\n", '- id: "sh\\0op"\n')]),
    BadConfig("bytes that are not UTF-8", files={_EXTRA: b"type: persona\nname: \xff\xfe\n"}),
    BadConfig("a file of more than 256 KiB", files={_EXTRA: "# " + "x" * 256 * 1024 + "\n"}),
    BadConfig("a mapping as a key", files={_EXTRA: "? {a: b}\n: c\n"}),
    BadConfig("no agent_config.yaml", files={CONFIG: None}),
    BadConfig("an empty agent_config.yaml", files={CONFIG: ""}),
    BadConfig(
        "three problems in two files at once",
        edits=[("model: nano\n    tools", "model: nanno\n    tools"), ("role: native", "rolle: native")],
        files={_EXTRA: "type: persona\nname: [x]\nowner: shop\ninstructions: Hello.\n"},
    ),
)
