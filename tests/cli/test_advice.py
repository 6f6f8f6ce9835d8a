"""What `sidecar validate` advises on a configuration that loads, and what a turn of it costs."""

import io
import json
from pathlib import Path

import pytest

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.cli.validate.command import ValidateOptions, validate
from sidecar.settings import read_settings
from subagents_client.status_words import ENGLISH
from tests.corpus.bad_configs.good import BLOCKS, block, write
from tests.support.requirement import requirement

EXAMPLE = Path(__file__).parents[2] / "examples" / "config"
LONG = "Use it for anything about vouchers and where they can be spent; not for orders. " * 12
"""960 bytes: an estimated 240 tokens."""
CAP = {f"{BLOCKS}/platform/instructions-routing.yaml": block("instructions-routing") + "  At most {{fan_out_cap}}.\n"}
TWO_MORE = """\
  - {{id: rewards, description: {}, role: native, model: nano}}
  - {{id: stock, description: Says what is there. {}, role: native, model: nano}}
"""


def advised(root: Path, *, strict: bool = False) -> tuple[int, list[str]]:
    """Run the command; return its exit code and its advice without the file and line."""
    out = io.StringIO()
    code = validate(root, ValidateOptions(strict=strict), load_directory, out)
    return code, [line.split(": advice: ")[1] for line in out.getvalue().splitlines() if ": advice: " in line]


def described(tmp_path: Path, description: str, other: str = "Vouchers live here. " + LONG) -> list[str]:
    """Return the advice on `shop` when it is described so, and a sibling `rewards` as `other`."""
    agents = TWO_MORE.format(json.dumps(other), LONG)
    edits = (
        ("description: Finds offers.\n    role", f"description: {json.dumps(description)}\n    role"),
        ("agents:\n", "agents:\n" + agents),
        ("sub_agents: [shop]", "sub_agents: [shop, rewards, stock]"),
    )
    prefix = "agents.shop.description: "
    return [line.removeprefix(prefix) for line in advised(write(tmp_path, CAP, *edits))[1] if line.startswith(prefix)]


@requirement("PC1-NFR-3a")
def test_the_example_is_within_the_budget_and_nothing_is_advised() -> None:
    """Three verticals of 200 to 400 tokens each, strictly checked."""
    assert advised(EXAMPLE, strict=True) == (0, [])


@requirement("PC1-NFR-3a")
def test_a_description_outside_its_budget_is_told(tmp_path: Path) -> None:
    """Too short is advice, too long a warning; between them, nothing."""
    (short,) = described(tmp_path / "short", "Use it for vouchers, not for orders.")
    out = io.StringIO()
    long = write(tmp_path / "long", CAP, ("description: Finds offers.\n    role", f"description: {LONG * 2}\n    role"))
    validate(long, ValidateOptions(), load_directory, out)

    assert short.startswith("takes an estimated 9 tokens; with fewer than 200")
    assert "warning: agents.shop.description: takes an estimated 480 tokens" in out.getvalue()
    assert described(tmp_path / "right", "Vouchers and more. " + LONG) == []


@pytest.mark.parametrize(
    ("description", "advice"),
    [
        (LONG.replace("Use it for", "It knows"), "does not say when to ask this assistant"),
        (LONG.replace("not for orders", "and for orders"), "does not say what this assistant is not for"),
        (LONG + "Always call this first.", '"Always call" tells the model what to do'),
        (LONG + "You must ask it.", '"You must" tells the model what to do'),
        (LONG + "Ignore the others.", '"Ignore" tells the model what to do'),
        (LONG + "It should be preferred.", '"should be preferred" tells the model what to do'),
        (LONG + "For points, the rewards assistant.", 'names the sub-agent "rewards"'),
        (LONG + "Otherwise ask_rewards.", 'names the sub-agent "rewards"'),
        ("Vouchers LIVE here! " + LONG, 'begins with the same words as "rewards": "vouchers live here"'),
    ],
)
def test_a_description_that_misleads_a_model_is_told(description: str, advice: str, tmp_path: Path) -> None:
    """One rule each; a description without that fault gets no advice."""
    (line,) = described(tmp_path, description)

    assert line.startswith(advice)
    assert described(tmp_path / "right", LONG) == []


@requirement("PC1-D-38", "PC1-D-62")
def test_a_verticals_block_is_called_by_its_kind_and_owner(tmp_path: Path) -> None:
    """`persona-shop` and `context-shop-nearby` are; `nearby` is not; the platform's names are free."""
    files = {
        f"{BLOCKS}/shop/a.yaml": block("context-shop-nearby", "shop", "context"),
        f"{BLOCKS}/shop/b.yaml": block("nearby", "shop", "context"),
        f"{BLOCKS}/platform/c.yaml": block("anywhere", "platform", "context"),
    }
    _, lines = advised(write(tmp_path, CAP | files))

    assert [line for line in lines if line.startswith("name: ")] == [
        'name: "nearby" should be context-shop, or begin with context-shop-, so that its kind and owner can be seen'
    ]


@requirement("PC1-D-43")
def test_an_orchestrator_belongs_to_the_platform(tmp_path: Path) -> None:
    """A vertical's block in the orchestrator's list, and a routing block that names no cap."""
    edit = ("[instructions-routing]", "[instructions-routing, persona-shop]")
    _, lines = advised(write(tmp_path / "one", CAP, edit))
    _, capless = advised(write(tmp_path / "two"))

    mine = [line for line in lines if line.startswith("agents.concierge")]
    assert mine == [
        'agents.concierge.prompt_blocks[1]: "persona-shop" belongs to "shop"; orchestrators belong to the platform'
    ]
    assert any("how many assistants it may ask at once ({{fan_out_cap}})" in line for line in capless)


def test_advice_fails_only_where_it_is_asked_to(tmp_path: Path) -> None:
    """The small configuration has advice and no problem."""
    root = write(tmp_path)

    assert [advised(root)[0], advised(root, strict=True)[0]] == [0, 1]
    said = [io.StringIO(), io.StringIO()]
    for strict, out in enumerate(said):
        validate(root, ValidateOptions(strict=bool(strict)), load_directory, out)
    last = [out.getvalue().splitlines()[-1].partition(": ")[0] for out in said]
    assert last == ["valid", "not valid (--strict)"]


@requirement("PC1-NFR-4a")
def test_what_a_turn_costs_is_counted_from_prompts_and_prices() -> None:
    """The example: each prompt as a share of its model's window, each part in dollars, the turn as their sum."""
    out = io.StringIO()
    validate(EXAMPLE, ValidateOptions(as_json=True), load_directory, out)
    agents = {agent["id"]: agent for agent in json.loads(out.getvalue())["agents"]}
    concierge, shop = agents["concierge"]["estimated_cost"], agents["shop"]["estimated_cost"]

    assert concierge["window_percent"] == round(100 * agents["concierge"]["estimated_prompt_tokens"] / 272000, 2)
    assert concierge["input_usd"] == pytest.approx(2 * concierge["prompt_tokens"] * 0.05 / 1e6)
    assert (shop["output_tokens"], shop["output_usd"]) == (1600, pytest.approx(0.0032))
    parts = [agents[name]["estimated_cost"] for name in ("concierge", "shop", "rewards", "support")]
    whole = sum(part["input_usd"] + (part["output_usd"] or 0) for part in parts)
    assert concierge["turn"] == {"without_calls": concierge["input_usd"], "with_all": pytest.approx(whole)}


def test_costs_are_printed_and_an_unknown_price_is_said_to_be_unknown(tmp_path: Path) -> None:
    """The example has prices, the small configuration has none."""
    texts = []
    for root in (EXAMPLE, write(tmp_path)):
        out = io.StringIO()
        validate(root, ValidateOptions(costs=True), load_directory, out)
        texts.append(out.getvalue())

    assert "a turn of concierge: $" in texts[0]
    assert "a turn of concierge: (price unknown) alone, (price unknown) asking 1\n" in texts[1]


PERSONA = f"{BLOCKS}/shop/persona-shop.yaml"
ROUTING = f"{BLOCKS}/platform/instructions-routing.yaml"


def about_names(tmp_path: Path, file: str, text: str) -> list[str]:
    """Return the advice on the text of a block."""
    head = block("x", "shop") if file == PERSONA else block("instructions-routing", kind="instructions")
    named = head.replace("name: x", "name: persona-shop").partition("instructions: ")[0]
    root = write(tmp_path, {**CAP, file: f"{named}instructions: {json.dumps(text)}\n"})
    return [line for line in advised(root)[1] if line.startswith('instructions: "')]


@requirement("PC1-FR-8c")
def test_a_block_may_name_what_its_agent_has(tmp_path: Path) -> None:
    """Own tools; for an orchestrator those that ask its sub-agents, and all their arguments."""
    assert about_names(tmp_path / "a", PERSONA, "Read search_offers, then `render_offer_card`; user_id is given.") == []
    text = "Call ask_shop with request, intent_count and prior_context. At most {{fan_out_cap}}."
    assert about_names(tmp_path / "b", ROUTING, text) == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (PERSONA, "Use serch_offers.", '"serch_offers" is no tool, argument or field that "shop" has; did you mean'),
        (PERSONA, "Use `pay`.", '"pay" is no tool, argument or field that "shop" has'),
        (PERSONA, "Call ask_rewards.", '"ask_rewards" is no tool, argument or field that "shop" has'),
        (ROUTING, "Give summary_text. At most {{fan_out_cap}}.", '"summary_text" is no tool, argument or field that'),
    ],
)
def test_a_block_that_names_what_its_agent_does_not_have_is_told(
    file: str, text: str, said: str, tmp_path: Path
) -> None:
    """A model would try it, and be refused."""
    (advice,) = about_names(tmp_path, file, text)
    assert advice.startswith(f"instructions: {said}")


def test_a_block_that_asks_for_a_status_event_is_told(tmp_path: Path) -> None:
    """The tool reports it when it is called; the model has no way to."""
    announced = (
        "    description: Finds offers.\n    arguments: {type: object, x-status: searching_offers}\n    endpoint"
    )
    text = block("persona-shop", "shop").replace("Text of persona-shop.", "Report searching_offers while you look.")
    root = write(tmp_path, {**CAP, PERSONA: text}, ("    description: Finds offers.\n    endpoint", announced))
    told = [line for line in advised(root)[1] if "searching_offers" in line]
    assert told == [
        'instructions: "searching_offers" is a status event, which the tool reports by itself; leave it out'
    ]


@requirement("PC2-AC-9")
def test_every_status_event_of_the_example_is_one_that_arrives() -> None:
    """Each data tool announces itself, with a type that the example's sidecar passes on and the SDK has words for."""
    catalogue = load_directory(EXAMPLE).catalogue
    assert catalogue is not None
    announced = {tool.arguments.get("x-status") for tool in catalogue.tools.values() if tool.is_data_backed}
    settings = read_settings(EXAMPLE.parent / "sidecar.toml", {})

    assert announced | {"still_working"} == set(settings.status.events)
    assert announced <= set(ENGLISH)


@requirement("PC1-NFR-4a")
def test_the_share_of_the_window_follows_the_prompt_that_is_really_assembled(tmp_path: Path) -> None:
    """1,500 words more in a routing block are a tenth to a third of a window of 10,000, for its agent alone."""

    def shares(folder: str, text: str) -> dict[str, float]:
        edit = {ROUTING: block("instructions-routing", kind="instructions").replace("Text of", f"{text}Text of")}
        out = io.StringIO()
        validate(write(tmp_path / folder, edit), ValidateOptions(as_json=True), load_directory, out)
        return {each["id"]: each["estimated_cost"]["window_percent"] for each in json.loads(out.getvalue())["agents"]}

    small, large = shares("small", ""), shares("large", "word " * 1_500)
    assert 0 < small["concierge"] < 2
    assert 10 < large["concierge"] < 30
    assert small["shop"] == large["shop"]
