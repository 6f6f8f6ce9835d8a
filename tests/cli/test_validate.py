import io
import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.cli.validate.command import ValidateOptions, validate
from tests.corpus.bad_configs.cases import BAD_CONFIGS, expected
from tests.corpus.bad_configs.good import BLOCKS, CONFIG, BadConfig, block, write
from tests.support.requirement import requirement

EXAMPLE = Path(__file__).parents[2] / "examples" / "config"
EXPECTED = expected()

REPOSITORY = Path(__file__).parents[2]


def printed(root: Path, *, as_json: bool = False) -> tuple[int, str]:
    """Run the command on a folder; return its exit code and what it printed, advice left out."""
    out = io.StringIO()
    code = validate(root, ValidateOptions(as_json=as_json), load_directory, out)
    lines = out.getvalue().splitlines(keepends=True)
    return code, "".join(line for line in lines if ": advice: " not in line or as_json)


def agents_of(root: Path) -> dict[str, dict[str, Any]]:
    """Return what the command says about each agent."""
    _, text = printed(root, as_json=True)
    return {agent["id"]: agent for agent in json.loads(text)["agents"]}


@requirement("PC1-FR-1a", "PC1-FR-1b", "PC1-FR-1c", "PC1-FR-2e")
@pytest.mark.parametrize("case", BAD_CONFIGS, ids=lambda case: case.name)
def test_a_bad_configuration_is_refused_with_file_line_field_and_advice(case: BadConfig, tmp_path: Path) -> None:
    """Each case of the corpus prints exactly the lines kept with it, and the command fails."""
    root = write(tmp_path, case.files, *case.edits)
    code, text = printed(root)

    assert text.replace(str(root), "FOLDER").splitlines() == EXPECTED[case.name]
    assert code == 1


def test_every_expectation_of_the_corpus_belongs_to_a_case() -> None:
    """At least forty cases; names are unique and match the file of expectations in both directions."""
    names = [case.name for case in BAD_CONFIGS]

    assert len(names) >= 40
    assert sorted(names) == sorted(EXPECTED)


@requirement("PC1-FR-1e", "PC1-FR-2a", "PC1-FR-2b", "PC1-FR-2d")
def test_every_reference_of_the_example_resolves(tmp_path: Path) -> None:
    """The example: one orchestrator, three verticals, data-backed and local tools."""
    code, text = printed(EXAMPLE)

    assert text.splitlines()[-1] == "valid: 4 agents (1 orchestrator), 7 tools, 0 warnings"
    assert code == 0
    assert agents_of(EXAMPLE)["rewards"]["model"] == "gpt-5.4-mini-low"
    assert agents_of(EXAMPLE)["concierge"]["sub_agents"] == ["shop", "rewards", "support"]


@requirement("PF1-D-75", "PF1-FR-3a")
def test_entries_without_a_flag_are_named_and_fail_nothing(tmp_path: Path) -> None:
    """Whether one is new, and so serves nobody, the sidecars know; sub-agents that live today may stay without."""
    example = printed(EXAMPLE)[1]
    flagged = write(
        tmp_path, {}, ("  - id: shop\n", "  - id: shop\n    enabled_via_flag: ai_assistant_subagent_shop\n")
    )

    assert "note: no enabled_via_flag: shop, rewards, support; without the flag, an entry that is new" in example
    assert "note:" not in printed(flagged)[1]
    assert agents_of(flagged)["shop"]["enabled_via_flag"] == "ai_assistant_subagent_shop"


@requirement("PC1-FR-12a", "PC1-FR-12b", "PC1-FR-12c", "PC1-FR-2c")
def test_the_three_required_blocks_lead_every_prompt_without_being_declared() -> None:
    """Orchestrator and verticals alike; declared blocks follow in their own order."""
    agents = agents_of(EXAMPLE)

    for agent in agents.values():
        assert agent["prompt_blocks"][:3] == ["persona-fetch-assistant", "format-conversational", "safety-base"]
    assert agents["rewards"]["prompt_blocks"][3:] == ["persona-rewards", "instructions-rewards", "safety-financial"]


@requirement("PC1-FR-1g", "PC1-T-4", "PC1-D-19")
def test_blocks_stand_in_the_order_in_which_they_are_listed(tmp_path: Path) -> None:
    """A format block listed between two others is not moved to its category."""
    files = {
        f"{BLOCKS}/shop/format-shop.yaml": block("format-shop", "shop", "format"),
        f"{BLOCKS}/shop/a.yaml": block("a", "shop"),
    }
    root = write(tmp_path, files, ("[persona-shop]", "[persona-shop, format-shop, a]"))

    assert agents_of(root)["shop"]["prompt_blocks"][3:] == ["persona-shop", "format-shop", "a"]


@requirement("PC1-T-2", "PC1-D-49")
def test_a_declared_required_block_warns_and_stands_once_at_the_head(tmp_path: Path) -> None:
    """`safety-base` in a vertical's own list."""
    root = write(tmp_path, {}, ("[persona-shop]", "[persona-shop, safety-base]"))

    code, text = printed(root)

    assert code == 0
    assert text.splitlines() == [
        f'{CONFIG}:31: warning: agents.shop.prompt_blocks[1]: "safety-base" is put at the head of every prompt anyway;'
        " leave it out",
        "concierge: tokens of each call for its tools (an estimate: bytes / 4 of name, description and schema):"
        " ask_shop 118",
        "  the sub-agent of them: 118 tokens; more sub-agents of this size: with 8, 944, with 10, 1180, with 20, 2360",
        "note: no enabled_via_flag: shop; without the flag, an entry that is new to a sidecar starts at dev and"
        " serves no user (docs/lifecycle.md)",
        "valid: 2 agents (1 orchestrator), 2 tools, 1 warning, 4 pieces of advice",
    ]
    assert agents_of(root)["shop"]["prompt_blocks"][2:] == ["safety-base", "persona-shop"]


def test_the_page_shows_what_the_tools_of_the_example_cost() -> None:
    """The block of docs/definitions.md, as `sidecar validate examples/config` prints it."""
    _, text = printed(REPOSITORY / "examples" / "config")
    costs = [line for line in text.splitlines() if "tokens of each call" in line or "of this size" in line]
    assert len(costs) == 2
    assert "```text\n" + "\n".join(costs) + "\n```" in (REPOSITORY / "docs" / "definitions.md").read_text("utf-8")


@requirement("PC1-FR-1h")
@pytest.mark.parametrize(
    ("role", "sub_agents", "counted"),
    [("native", "[shop]", "1 orchestrator"), ("orchestrator", "[]", "0 orchestrators")],
)
def test_listing_sub_agents_makes_an_orchestrator_and_the_role_does_not(
    role: str, sub_agents: str, counted: str, tmp_path: Path
) -> None:
    """A native entry with sub-agents is one; an entry of role orchestrator with an empty list is none."""
    root = write(
        tmp_path, {}, ("role: orchestrator", f"role: {role}"), ("sub_agents: [shop]", f"sub_agents: {sub_agents}")
    )

    assert counted in printed(root)[1]


@requirement("PC1-FR-1f", "PC1-T-3")
def test_tools_are_resolved_by_id_and_listed_in_order() -> None:
    """Of the example's sub-agent."""
    assert agents_of(EXAMPLE)["shop"]["tools"] == ["search_offers", "render_offer_card"]


@requirement("PC1-FR-1i")
def test_tuning_takes_three_keys_and_each_of_them_makes_another_card(tmp_path: Path) -> None:
    """A value that was accepted and then dropped would leave the digest as it is."""

    def digest(tuning: str) -> str:
        root = write(tmp_path / str(len(tuning)), {}, ("[persona-shop]", f"[persona-shop]\n    tuning: {{{tuning}}}"))
        return str(agents_of(root)["shop"]["digest"])

    keys = ("max_output_tokens: 100", "reasoning_effort: low", "text_verbosity: medium")
    assert len({digest(", ".join(keys[:count])) for count in range(4)}) == 4


@requirement("PC1-FR-1i")
@pytest.mark.parametrize("key", ["temperature", "top_p", "seed", "verbosity", "max_tokens", "stop", "extra"])
def test_tuning_takes_no_other_key(key: str, tmp_path: Path) -> None:
    """Also none that models know by that name: no runner would be told of it."""
    code, text = printed(write(tmp_path, {}, ("[persona-shop]", f"[persona-shop]\n    tuning: {{{key}: 1}}")))

    assert code == 1
    assert f'agents.shop.tuning.{key}: unknown field "{key}"' in text


@requirement("PC1-T-1")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- id: shop\n", "- id: Shop\n", '"Shop" is not an id'),
        ("- id: shop\n", "- id: _shop\n", '"_shop" is not an id'),
        ("- id: shop\n", "- id: shop.one\n", '"shop.one" is not an id'),
        ("- id: shop\n", f"- id: {'s' * 61}\n", 's" is not an id'),
        ("- id: shop\n    description: Finds offers.\n", "- id: shop\n", "description"),
        ("    role: native\n", "", "role"),
        ("    role: native\n    model: nano\n", "    role: native\n", "model"),
        ("    role: native\n    model: nano\n", "    role: native\n    model: nowhere\n", "agents.shop.model"),
        ("tools: [search_offers, render_offer_card]", "tools: [search_offers, x]", "agents.shop.tools[1]"),
        ("[persona-shop]", "[persona-shop, nowhere]", "agents.shop.prompt_blocks[1]"),
        ("sub_agents: [shop]", "sub_agents: [shop, nowhere]", "agents.concierge.sub_agents[1]"),
    ],
)
def test_ids_required_fields_and_registry_keys_are_each_checked(old: str, new: str, said: str, tmp_path: Path) -> None:
    """One thing wrong at a time: the configuration is refused, and a line says what and where."""
    assert printed(write(tmp_path / "good"))[0] == 0
    code, text = printed(write(tmp_path / "bad", {}, (old, new)))

    assert code == 1
    assert said in text


@requirement("PC1-T-19")
def test_a_missing_required_block_is_rejected_at_load_time(tmp_path: Path) -> None:
    """Each of the three in turn; nobody declares them, so only the assembled prompt can lack them."""
    for name in ("persona-fetch-assistant", "format-conversational", "safety-base"):
        root = write(tmp_path / name, {f"{BLOCKS}/platform/{name}.yaml": None})

        code, text = printed(root)

        assert code == 1
        assert text.splitlines()[0] == f'{BLOCKS}: the required prompt block "{name}" is missing'


@requirement("PC1-D-33", "PC1-D-34", "PC1-D-37", "PC1-D-48")
def test_a_block_says_its_kind_and_owner_and_the_platforms_are_the_platforms(tmp_path: Path) -> None:
    """Each of the six kinds loads, another does not; capabilities are XML; every block names its owner."""
    kinds = ("persona", "instructions", "capabilities", "safety", "format", "context")
    tagged = "  <can_do>Find.</can_do><cannot_do>Buy.</cannot_do>\n"
    texts = {kind: block(f"{kind}-x", "shop", kind) + tagged * (kind == "capabilities") for kind in kinds}
    files = {f"{BLOCKS}/shop/{kind}.yaml": text for kind, text in texts.items()}

    assert printed(write(tmp_path, files))[0] == 0
    for refused in (
        "a block of no known type",
        "capabilities without can and cannot",
        "capabilities in a persona",
        "capabilities said twice",
        "a required block in a vertical's hands",
        "a block without owner",
    ):
        assert EXPECTED[refused][-1] == "invalid: 1 error, 0 warnings"


@requirement("PC1-D-39", "PC1-D-40")
def test_a_vertical_may_list_platform_blocks_and_nobody_gets_them_unasked(tmp_path: Path) -> None:
    """`safety-financial` and `context-location-aware` are written once and stand only where they are listed."""
    agents = agents_of(EXAMPLE)

    using = {name for name, agent in agents.items() if "safety-financial" in agent["prompt_blocks"]}
    locating = {name for name, agent in agents.items() if "context-location-aware" in agent["prompt_blocks"]}

    assert (using, locating) == ({"rewards"}, {"shop"})


@requirement("PC1-D-9")
def test_an_orchestrator_is_written_like_any_other_entry() -> None:
    """The example's: a tool of its own, its own blocks after the injected ones, and a list of sub-agents."""
    concierge = agents_of(EXAMPLE)["concierge"]

    assert concierge["tools"] == ["llm_feedback"]
    own = concierge["prompt_blocks"][3:6]
    assert own == ["persona-orchestrator", "instructions-routing", "instructions-prior-context-generation"]
    assert concierge["sub_agents"] == ["shop", "rewards", "support"]


@requirement("PC1-D-1", "PC1-D-5", "PC1-D-6")
@pytest.mark.parametrize("field", ["memory", "skills", "instructions", "system_prompt"])
def test_an_entry_refers_to_registries_and_holds_nothing_else(field: str, tmp_path: Path) -> None:
    """No memory keys, no bundle of skills, no prompt of its own: an unknown field is refused."""
    code, text = printed(write(tmp_path, {}, ("[persona-shop]", f"[persona-shop]\n    {field}: [x]")))

    assert code == 1
    assert text.startswith(f'{CONFIG}:32: agents.shop.{field}: unknown field "{field}"')


@requirement("PC1-FR-1d")
@pytest.mark.parametrize("role", ["orchestrator", "external-wrapper", "internal-helper"])
def test_two_entries_that_differ_in_role_only_come_out_the_same(role: str, tmp_path: Path) -> None:
    """But for their identity: `role` is part of what the entry says, and decides nothing."""
    own = {"digest": "", "commit": ""}

    native = agents_of(write(tmp_path / "native"))["shop"]
    other = agents_of(write(tmp_path / "other", {}, ("role: native", f"role: {role}")))["shop"]

    assert native | own == other | own


@requirement("PC1-AC-5")
def test_a_slot_filled_by_another_id_resolves(tmp_path: Path) -> None:
    """`shop-2` fills the slot `shop`; the orchestrator's list stays as it is."""
    root = write(tmp_path, {}, ("- id: shop\n", "- id: shop-2\n    slot: shop\n"))

    assert printed(root)[0] == 0
    assert agents_of(root)["shop-2"]["slot"] == "shop"


@requirement("PC1-AC-4")
def test_editing_one_block_changes_every_agent_that_uses_it_and_no_other(tmp_path: Path) -> None:
    """`persona-shop` belongs to the shop alone, `safety-base` to everybody."""
    before = agents_of(write(tmp_path))
    write(tmp_path, {f"{BLOCKS}/shop/persona-shop.yaml": block("persona-shop", "shop") + "  More.\n"})
    shop_only = agents_of(tmp_path)
    write(tmp_path, {f"{BLOCKS}/platform/safety-base.yaml": block("safety-base", kind="safety") + "  More.\n"})
    everybody = agents_of(tmp_path)

    assert shop_only["shop"]["digest"] != before["shop"]["digest"]
    assert shop_only["concierge"]["digest"] == before["concierge"]["digest"]
    assert all(everybody[name]["digest"] != before[name]["digest"] for name in before)


def test_a_deprecated_entry_stays_and_is_marked(tmp_path: Path) -> None:
    """`status: deprecated` says the same as `deprecated: true`."""
    by_status = agents_of(write(tmp_path, {}, ("[persona-shop]", "[persona-shop]\n    status: deprecated")))
    by_flag = agents_of(write(tmp_path, {}, ("[persona-shop]", "[persona-shop]\n    deprecated: true")))

    assert by_status["shop"]["deprecated"] is True
    assert by_status["shop"]["digest"] == by_flag["shop"]["digest"]


def test_json_names_every_part_of_a_problem(tmp_path: Path) -> None:
    """One misspelt tool: file, line, field, key and nearest match stand apart, and the line as printed."""
    code, text = printed(write(tmp_path, {}, ("tools: [search_offers,", "tools: [search_ofers,")), as_json=True)

    answer = json.loads(text)

    assert code == 1
    assert answer["valid"] is False
    assert answer["agents"] == []
    assert answer["problems"] == [
        {
            "file": CONFIG,
            "line": 30,
            "field": "agents.shop.tools[0]",
            "text": 'unknown tool "search_ofers"',
            "severity": "error",
            "key": "search_ofers",
            "suggestion": "search_offers",
            "message": EXPECTED["a tool that is not registered"][0],
        }
    ]


def test_a_folder_that_is_not_there_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    """The root itself is missing."""
    code, text = printed(tmp_path / "nowhere")

    assert code == 1
    assert (
        text.splitlines()[0]
        == f"{CONFIG}: cannot be read: the configuration root {tmp_path / 'nowhere'} does not exist"
    )


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    """A path to `agent_config.yaml` itself is a common mistake."""
    file = tmp_path / "agent_config.yaml"
    file.write_text("")

    code, text = printed(file)

    assert code == 1
    assert text.splitlines()[0] == f"{CONFIG}: cannot be read: the configuration root {file} is a file, not a folder"
