"""What `sidecar validate-refs` lets through and what it stops, on real git histories."""

import json
from pathlib import Path

import pytest

from sidecar.cli.validate.validate_refs import Format
from tests.corpus.bad_configs.good import BLOCKS, block
from tests.support.config_repository import ConfigRepository
from tests.support.requirement import requirement

MAJOR = (
    "Major Agent Definition changes require a new `agent_id`; in-place mutation of promoted Agent Definitions is "
    "prohibited (FR-12)."
)
"""As the specification has it; written out here so that the program cannot change it unseen."""
SHOP_TOOLS = "tools: [search_offers, render_offer_card]"
SHOP_BLOCK = f"{BLOCKS}/shop/persona-shop.yaml"
SHOP = """\
  - id: shop
    description: Finds offers.
    role: native
    model: nano
    tools: [search_offers, render_offer_card]
    prompt_blocks: [persona-shop]
"""
TYPO = ("Finds offers.\n    role", "Finds the offers.\n    role")


@pytest.fixture
def repository(tmp_path: Path) -> ConfigRepository:
    """The good configuration on `main`, and a branch to change it on."""
    return ConfigRepository(tmp_path / "repository")


def exported(folder: Path, *rows: tuple[str, str]) -> Path:
    """Return a file that says which definition is in which state."""
    file = folder / "export.json"
    file.write_text(json.dumps({"definitions": [{"definition_id": name, "state": state} for name, state in rows]}))
    return file


@requirement("PF1-D-58", "PF1-D-59", "PF1-FR-12a", "PF1-FR-12d")
@pytest.mark.parametrize(
    ("edit", "line", "detail"),
    [
        (("role: native\n    model: nano", "role: native\n    model: single"), 29, 'model: "nano" became "single"'),
        ((SHOP_TOOLS, "tools: [search_offers]"), 30, 'tools: removed "render_offer_card"'),
        (("    " + SHOP_TOOLS + "\n", ""), 26, 'tools: removed "search_offers", "render_offer_card"'),
        (("blocks: [persona-shop]", "blocks: [persona-shop, x]"), 31, 'prompt_blocks: added "x"'),
        (("blocks: [persona-shop]", "blocks: []"), 31, 'prompt_blocks: removed "persona-shop"'),
    ],
    ids=["model", "tool", "all tools", "block added", "block removed"],
)
def test_a_major_change_under_an_id_is_refused(
    repository: ConfigRepository, edit: tuple[str, str], line: int, detail: str
) -> None:
    """Even with an override of both kinds: nothing lets it through; the message is the specified one."""
    repository.put({f"{BLOCKS}/shop/x.yaml": block("x", "shop")})
    repository.edit(edit, ("  - id: shop", "  - id: shop  # minor-change: please"))
    repository.commit("change\n\nSubagent-Minor-Change: shop please")

    printed = repository.check()

    field = detail.partition(":")[0]
    assert printed.lines == [f"agent_config.yaml:{line}: check d: agents.shop.{field}: {MAJOR}", f"    {detail}"]
    assert printed.code == 1


@requirement("PF1-FR-12a")
@pytest.mark.parametrize(
    ("tools", "detail"),
    [
        ("[search_offers, render_offer_card, rate_offer]", 'tools: added "rate_offer"'),
        ("[search_offers, rate_offer]", 'tools: added "rate_offer", removed "render_offer_card"'),
    ],
    ids=["added", "exchanged"],
)
def test_a_tool_that_was_not_there_makes_another_definition_too(
    repository: ConfigRepository, tools: str, detail: str
) -> None:
    """Also where nothing is taken away; the registry's new entry is no trouble by itself."""
    registered = "    description: Shows an offer.\n"
    entry = "  - id: rate_offer\n    description: Rates an offer.\n"
    repository.edit((registered, registered + entry), (SHOP_TOOLS, f"tools: {tools}"))

    printed = repository.check()

    assert (printed.code, MAJOR in printed.out) == (1, True)
    assert f"    {detail}" in printed.lines


@requirement("PF1-AC-9a")
def test_a_model_swap_passes_only_as_a_new_definition(repository: ConfigRepository) -> None:
    """In place it is refused; as an entry with its own id in the same slot, which starts at `dev`, it passes."""
    repository.edit(("role: native\n    model: nano", "role: native\n    model: single"))
    refused = repository.check()

    repository.edit(("role: native\n    model: single", "role: native\n    model: nano"))
    own = "id: shop-single\n    slot: shop\n    enabled_via_flag: ai_assistant_subagent_shop-single"
    new = SHOP.replace("id: shop", own).replace("model: nano", "model: single")
    repository.put({"agent_config.yaml": (repository.root / "agent_config.yaml").read_text() + new})
    passed = repository.check()

    assert (refused.code, MAJOR in refused.out) == (1, True)
    assert (passed.code, passed.out) == (0, "passed: 0 errors, 0 warnings, 0 notices\n")


@requirement("PF1-AC-9b", "PF1-FR-12e")
@pytest.mark.parametrize(
    ("comment", "code"),
    [
        (("  - id: shop", "  # minor-change: a typo\n  - id: shop"), 0),
        (("  - id: shop", "  - id: shop  # minor-change: a typo"), 0),
        (("blocks: [persona-shop]\n", "blocks: [persona-shop]\n    # minor-change: a typo\n"), 0),
        (("  - id: shop", "    # minor-change: a typo\n  - id: shop"), 1),
        (("  - id: concierge", "  - id: concierge  # minor-change: a typo"), 1),
        (("  - id: shop", "  - id: shop  # minor-change:"), 1),
        (("agents:", "agents:  # minor-change: a typo"), 1),
        (("Finds the offers.", "'Finds # minor-change: x'"), 1),
        (("Finds the offers.", "|\n      Finds\n      # minor-change: x\n      more."), 1),
    ],
    ids=[
        "above", "behind", "at the end", "of the entry before", "of another", "no reason", "of the section", "quoted",
        "in a text",
    ],
)  # fmt: skip
def test_a_minor_change_passes_only_with_a_comment_that_says_why(
    repository: ConfigRepository, comment: tuple[str, str], code: int
) -> None:
    """A typo in a description; a comment that belongs to something else, or is none, overrides nothing."""
    repository.edit(TYPO)
    without = repository.check()
    repository.edit(comment)

    printed = repository.check()

    assert without.code == 1
    assert "Subagent-Minor-Change: shop <reason>" in without.lines[0]
    assert printed.code == code
    assert any("overridden: a typo" in line for line in printed.lines) == (code == 0)


def test_a_comment_of_a_section_overrides_nothing_in_the_one_before(repository: ConfigRepository) -> None:
    """The last tool changes, the comment stands where the agents begin; then at the tool itself."""
    repository.edit(("Shows an offer.", "Shows one offer."), ("agents:", "agents:  # minor-change: a typo"))
    beside = repository.check()
    repository.edit(("Shows one offer.", "Shows one offer.  # minor-change: a typo"))

    assert (beside.code, repository.check().code) == (1, 0)


def test_an_override_that_was_there_before_overrides_nothing_new(repository: ConfigRepository) -> None:
    """The comment was merged with an earlier change; a new reason passes."""
    repository.edit(TYPO, ("  - id: shop", "  - id: shop  # minor-change: a typo"))
    repository.commit()
    repository.git("checkout", "-q", "-B", "main")
    repository.git("checkout", "-q", "-b", "next")
    repository.edit(("Finds the offers.\n    role", "Finds all offers.\n    role"))
    stale = repository.check()
    repository.edit(("minor-change: a typo", "minor-change: another typo"))

    assert (stale.code, repository.check().code) == (1, 0)
    assert "the override there is older than this change" in stale.out


@pytest.mark.parametrize(
    ("trailer", "code"),
    [
        ("Subagent-Minor-Change: shop a typo", 0),
        ("Subagent-Minor-Change: shop", 1),
        ("Subagent-Minor-Change: concierge a typo", 1),
        ("Reviewed-by: T\nsubagent-minor-change: shop a typo", 0),
    ],
)
def test_a_trailer_of_a_commit_overrides_what_it_names(repository: ConfigRepository, trailer: str, code: int) -> None:
    """It stands in the first of two commits; without a reason, or for another agent, it says nothing."""
    repository.edit(TYPO)
    repository.commit(f"Typo\n\n{trailer}")
    repository.commit("Something else")

    assert repository.check().code == code


def test_an_old_commits_trailer_does_not_reach_a_new_change(repository: ConfigRepository) -> None:
    """It is in the history of the base."""
    repository.commit("Old\n\nSubagent-Minor-Change: shop a typo")
    repository.git("checkout", "-q", "-B", "main")
    repository.git("checkout", "-q", "-b", "next")
    repository.edit(TYPO)
    repository.commit()

    assert repository.check().code == 1


def test_a_change_inside_a_block_is_a_minor_change_of_its_users(repository: ConfigRepository) -> None:
    """Refused at the block; a comment there lets it pass, a comment at the only user too; unused blocks are free."""
    repository.put({SHOP_BLOCK: block("persona-shop", "shop") + "  More.\n"})
    refused = repository.check()
    repository.put({SHOP_BLOCK: "# minor-change: more\n" + block("persona-shop", "shop") + "  More.\n"})
    with_own = repository.check()
    repository.put({SHOP_BLOCK: block("persona-shop", "shop") + "  More.\n"})
    repository.edit(("  - id: shop", "  - id: shop  # minor-change: more"))
    with_users = repository.check()

    assert refused.lines[0].startswith(f"{SHOP_BLOCK}:4: check d: instructions: a minor change in place needs")
    assert "`Subagent-Minor-Change: block:persona-shop <reason>`" in refused.lines[0]
    assert (refused.code, with_own.code, with_users.code) == (1, 0, 0)


def test_what_changes_for_everybody_needs_everybodys_override_or_its_own(repository: ConfigRepository) -> None:
    """The model's served name: both agents use it. It warns, for it may be a model swap in disguise."""
    repository.edit(("nano-1", "nano-2"), ("  - id: shop", "  - id: shop  # minor-change: same weights"))
    one = repository.check()
    repository.edit(("  - id: concierge", "  - id: concierge  # minor-change: same weights"))
    both = repository.check()

    assert (one.code, both.code) == (1, 0)
    assert "warning: models.nano.provider_model: another model behind the same key" in both.out


def test_a_new_order_is_minor_and_warned_of(repository: ConfigRepository) -> None:
    """Two tools change places, with an override."""
    repository.edit(
        (SHOP_TOOLS, "tools: [render_offer_card, search_offers]"), ("id: shop", "id: shop  # minor-change: order")
    )

    printed = repository.check()

    assert printed.code == 0
    assert "check d: warning: agents.shop.tools: the order is part of the prompt's prefix" in printed.out
    assert printed.out.endswith("passed: 0 errors, 1 warning, 1 notice\n")


@requirement("PF1-AC-6", "PF1-FR-11a", "PF1-FR-11b", "PF1-T-6")
@pytest.mark.parametrize(
    ("edit", "done"),
    [
        ((SHOP, ""), "removed"),
        (("  - id: shop\n", "  - id: shop  # minor-change: it goes\n    status: deprecated\n"), "deprecated"),
        (("  - id: shop\n", "  - id: shop  # minor-change: it goes\n    deprecated: true\n"), "deprecated"),
    ],
    ids=["removed", "status", "deprecated"],
)
def test_what_an_orchestrator_still_names_cannot_go(
    repository: ConfigRepository, edit: tuple[str, str], done: str
) -> None:
    """The message names both, at the line of the orchestrator's list; taken off it in the same change, it may go."""
    repository.edit(edit)
    refused = repository.check(skip="b")
    repository.edit(("    sub_agents: [shop]\n", ""), ("id: concierge", "id: concierge  # minor-change: shop goes"))
    passed = repository.check()

    assert [line for line in refused.lines if "check c" in line] == [
        f'agent_config.yaml:25: check c: agents.concierge.sub_agents[0]: agent "shop" is {done}, but the orchestrator '
        '"concierge" still names "shop" in sub_agents; take it off that list in this change or before (FR-11)'
    ]
    assert (refused.code, passed.code) == (1, 0)


@requirement("PF1-D-57")
def test_a_list_that_another_definition_fills_or_that_is_deprecated_keeps_nobody(repository: ConfigRepository) -> None:
    """The old definition of a slot goes when a new one fills it; an orchestrator kept for replay counts for nothing."""
    new = SHOP.replace("id: shop", "id: shop-2\n    slot: shop")
    repository.edit((SHOP, new))
    filled = repository.check()
    repository.edit((new, SHOP.replace("role", "deprecated: true  # minor-change: it goes\n    role")))
    repository.edit(("role: orchestrator", "role: orchestrator\n    status: deprecated  # minor-change: it goes"))
    kept = repository.check()

    assert (filled.code, kept.code) == (0, 0), filled.out + kept.out


@requirement("PF1-D-56")
def test_a_list_may_not_name_what_is_in_rollback(repository: ConfigRepository, tmp_path: Path) -> None:
    """After a kill the next change has to clean up, whatever it is about; one live definition of the id is enough."""
    unknown = repository.check()
    dead = repository.check(export=exported(tmp_path, ("shop", "rollback"), ("shop", "rollback")))
    alive = repository.check(export=exported(tmp_path, ("shop", "rollback"), ("shop", "promote")))

    assert (unknown.code, dead.code, alive.code) == (0, 1, 0)
    assert dead.lines == [
        'agent_config.yaml:25: check b: agents.concierge.sub_agents[0]: "shop" resolves to nothing that can be served: '
        '"shop" is in rollback; take it off the list'
    ]


@requirement("PF1-D-56")
def test_a_slot_is_served_by_any_definition_that_fills_it(repository: ConfigRepository, tmp_path: Path) -> None:
    """The slot's first definition is in rollback, its second is not; then both are."""
    new = SHOP.replace("id: shop", "id: shop-2\n    slot: shop")
    repository.put({"agent_config.yaml": (repository.root / "agent_config.yaml").read_text() + new})
    one = repository.check(export=exported(tmp_path, ("shop", "rollback")))
    both = repository.check(export=exported(tmp_path, ("shop", "rollback"), ("shop-2", "rollback")))

    assert (one.code, both.code) == (0, 1)


@requirement("PF1-D-55")
@pytest.mark.parametrize("edit", [("model: nano\n    tools", "model: nanoo\n    tools"), ("tools:\n", "tools: [\n")])
def test_a_configuration_that_does_not_load_fails(repository: ConfigRepository, edit: tuple[str, str]) -> None:
    """A model that is not there; a file that is no YAML."""
    repository.edit(edit)

    printed = repository.check(skip="d")

    assert printed.code == 1
    assert [line for line in printed.lines if ": check a: " in line]


@requirement("PF1-D-56", "PF1-D-69")
def test_a_list_that_names_nobody_is_the_business_of_check_b_alone(repository: ConfigRepository) -> None:
    """The loader would refuse it, too; with check b off, check a does not bring it back."""
    repository.edit(("sub_agents: [shop]", "sub_agents: [shop, nobody]  # minor-change: one more"))
    printed = repository.check()

    assert [line for line in printed.lines if ": check a: " in line] == []
    assert (printed.code, repository.check(skip="b").code) == (1, 0)


EVERYTHING = (
    ("context_window: 10000", "context_windows: 10000"),
    ("sub_agents: [shop]", "sub_agents: [shop, nobody]  # minor-change: one more"),
    (SHOP, SHOP.replace("model: nano", "model: single").replace("role", "status: deprecated\n    role")),
)
"""Fails every check: an unknown field, a name of nobody, a deprecated agent that is named, a model swap."""


@requirement("PF1-D-60", "PF1-D-69")
@pytest.mark.parametrize("by", ["flag", "file"])
@pytest.mark.parametrize("off", ["", "a", "b", "c", "d", "abcd"])
def test_each_check_can_be_switched_off_alone(repository: ConfigRepository, off: str, by: str) -> None:
    """A change that fails all four: what is off says nothing, the others still fail the merge."""
    repository.edit(*EVERYTHING)
    if by == "file":
        said = "[checks]\n" + "".join(f"{letter} = false\n" for letter in off)
        repository.put({"subagent-validate-refs.toml": said})

    printed = repository.check(skip=off if by == "flag" else "")

    found = [letter for letter in "abcd" if f": check {letter}: " in printed.out]
    assert found == [letter for letter in "abcd" if letter not in off]
    assert printed.code == (0 if off == "abcd" else 1)
    assert printed.out.endswith(f"; switched off: {', '.join(off)}\n" if off else "s\n")


@requirement("PF1-D-60")
def test_findings_stand_at_the_line_in_a_pull_request(tmp_path: Path) -> None:
    """Golden workflow commands; the configuration is in a folder of the repository; signs are escaped."""
    repository = ConfigRepository(tmp_path / "repository", "conf/agents")
    repository.edit(*EVERYTHING[1:], ("id: concierge", "id: concierge  # minor-change: 100%"))

    printed = repository.check(shape=Format.GITHUB, skip="a")

    assert printed.out == (Path(__file__).parent / "golden" / "validate_refs_github.txt").read_text()
    assert printed.code == 1


def test_programs_get_every_part_by_name(repository: ConfigRepository) -> None:
    """One finding as JSON."""
    repository.edit(("role: native\n    model: nano", "role: native\n    model: single"))

    said = json.loads(repository.check(shape=Format.JSON, skip="b").out)

    assert said == {
        "passed": False,
        "findings": [
            {
                "check": "d",
                "weight": "error",
                "file": "agent_config.yaml",
                "line": 29,
                "field": "agents.shop.model",
                "message": MAJOR,
                "details": ['model: "nano" became "single"'],
            }
        ],
        "switched_off": ["b"],
        "told": [],
    }
