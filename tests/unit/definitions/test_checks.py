import pytest

from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS, declared_arguments
from sidecar.core.definitions.files.problems import Problem, Severity, nearest, quoted
from sidecar.core.definitions.prompt_size import estimated_tokens, tool_tokens
from sidecar.core.definitions.resolve import PROBLEMS_AT_MOST
from sidecar.core.identifiers import DefinitionId
from sidecar.core.json_schemas import canonical_text
from tests.support.requirement import requirement
from tests.unit.definitions.building import Configuration


def with_sub_agents(number: int) -> Configuration:
    """Return a configuration whose orchestrator lists so many leaf agents."""
    configuration = Configuration()
    names = [f"s{index}" for index in range(number)]
    leaf = {"description": "Helps.", "role": "native", "model": "nano"}
    configuration.config["agents"] += [{"id": name, **leaf} for name in names]
    configuration.agent("concierge")["sub_agents"] = names
    return configuration


@requirement("PC1-NFR-3b", "PC1-D-58")
@pytest.mark.parametrize(("number", "warnings"), [(7, 0), (8, 1), (10, 1), (11, 2), (13, 4)])
def test_more_than_seven_sub_agents_warn_and_each_beyond_ten_is_left_out_by_itself(number: int, warnings: int) -> None:
    """The bounds and their neighbours; the configuration loads with any number."""
    loaded = with_sub_agents(number).load()

    assert [problem.severity for problem in loaded.problems] == [Severity.WARNING] * warnings
    assert loaded.catalogue is not None
    tools = [name for name in loaded.tool_tokens[DefinitionId("concierge")] if name.startswith("ask_")]
    assert tools == [f"ask_s{index}" for index in range(min(number, 10))]


@requirement("PC1-NFR-3b")
def test_warnings_about_many_sub_agents_say_what_they_cost() -> None:
    """Twelve are listed and nine allowed: the sum of what is offered, and the cost of each that is not."""
    loaded = with_sub_agents(12).load(max_sub_agents=9)

    told = [problem.render() for problem in loaded.problems]
    assert told[0] == (
        f"agent_config.yaml:1: warning: agents.concierge.sub_agents: offers 9 sub-agents, whose tools take an estimated"
        f" {9 * tool_tokens_of('s0')} tokens of each call of its model; above 7, keep descriptions tight"
    )
    assert sorted(problem.field for problem in loaded.problems[1:]) == [
        f"agents.concierge.sub_agents[{index}]" for index in (10, 11, 9)
    ]
    assert told[3].endswith(
        'sub_agents[9]: "s9" is beyond the 9 that definitions.max_sub_agents allows, and no turn offers it; take it'
        f" off the list, or raise the setting for an estimated {tool_tokens_of('s9')} tokens of each call"
    )


def tool_tokens_of(name: str) -> int:
    """Return the estimate for a leaf agent of `with_sub_agents`."""
    return tool_tokens(f"ask_{name}", "Helps.", declared_arguments(DEFAULT_ARGUMENTS), estimated_tokens)


@requirement("PC1-NFR-4a")
def test_a_tool_counts_with_its_name_description_and_schema() -> None:
    """What a model is offered is what it pays for; own tools and sub-agents alike."""
    configuration = Configuration()
    before = configuration.load()
    schema = {"type": "object", "properties": {"wish": {"type": "string", "description": "word " * 100}}}
    configuration.agent("shop")["arguments"] = schema
    configuration.config["tools"][0]["arguments"] = schema

    after = configuration.load()

    longer = estimated_tokens(canonical_text(schema)) - estimated_tokens(canonical_text({}))
    concierge, shop = DefinitionId("concierge"), DefinitionId("shop")
    assert after.prompt_tokens[shop] - before.prompt_tokens[shop] == longer
    assert after.tool_tokens[concierge]["ask_shop"] == tool_tokens(
        "ask_shop", "Finds offers.", declared_arguments(schema), estimated_tokens
    )
    grown = after.tool_tokens[concierge]["ask_shop"] - before.tool_tokens[concierge]["ask_shop"]
    assert after.prompt_tokens[concierge] - before.prompt_tokens[concierge] == grown > 80


@requirement("PC1-NFR-4b", "PC1-NFR-4c")
@pytest.mark.parametrize(
    ("percent", "severity"), [(25, None), (26, Severity.WARNING), (50, Severity.WARNING), (51, Severity.ERROR)]
)
def test_a_prompt_warns_above_a_quarter_of_the_window_and_is_refused_above_half(
    percent: int, severity: Severity | None
) -> None:
    """The window is chosen so that the prompt takes just that share of it."""
    configuration = Configuration()
    tokens = configuration.load().prompt_tokens
    heaviest = max(tokens, key=lambda name: tokens[name])
    configuration.config["models"][0]["context_window"] = tokens[heaviest] * 100 // percent

    loaded = configuration.load()

    found = [problem.severity for problem in loaded.problems if problem.field == f"agents.{heaviest}.prompt_blocks"]
    assert found == ([] if severity is None else [severity])
    assert (loaded.catalogue is None) == (severity is Severity.ERROR)


def test_gated_blocks_count_as_if_their_flags_were_on() -> None:
    """The longest prompt must fit, not the shortest."""
    configuration = Configuration()
    before = configuration.load().prompt_tokens

    configuration.blocks["gated"]["instructions"] = "word " * 400

    after = configuration.load().prompt_tokens
    assert all(after[name] > before[name] + 400 for name in before)


@requirement("PC1-NFR-3a")
def test_a_description_of_over_400_tokens_warns() -> None:
    """It stands in the prompt of every orchestrator that lists the agent."""
    configuration = Configuration()
    configuration.agent("shop")["description"] = "word " * 330

    assert [problem.render() for problem in configuration.load().problems] == [
        "agent_config.yaml:1: warning: agents.shop.description: takes an estimated 413 tokens of every orchestrator's "
        "prompt; keep it below 400"
    ]


def test_a_placeholder_in_instructions_warns_because_nothing_is_filled_in() -> None:
    """`{user_id}` would reach the model as it stands."""
    configuration = Configuration()
    configuration.blocks["persona-shop"]["instructions"] = "Greet { user_id }."

    (problem,) = configuration.load().problems

    assert not problem.is_error
    assert problem.text == '"{ user_id }" is not filled in: the user_id stands at the end of every prompt'


@requirement("PC1-NFR-6")
def test_a_leaf_may_use_a_model_that_makes_one_call_at_a_time() -> None:
    """Only orchestrators need parallel tool calls."""
    configuration = Configuration()
    single = {"id": "single", "provider_model": "s", "context_window": 100_000, "parallel_tool_calls": False}
    configuration.config["models"].append(single)
    configuration.agent("shop")["model"] = "single"
    assert configuration.load().problems == ()

    configuration.agent("concierge")["model"] = "single"
    assert [problem.field for problem in configuration.load().problems] == ["agents.concierge.model"]


@requirement("PC1-D-7")
def test_the_model_behind_a_key_can_be_swapped_without_touching_the_definition() -> None:
    """The registry entry changes, the agent's entry does not."""
    configuration = Configuration()
    before = configuration.card()
    configuration.config["models"][0]["provider_model"] = "nano-2"

    after = configuration.card()

    assert after.definition == before.definition
    assert after.model.provider_model == "nano-2"


@requirement("PC1-D-8")
@pytest.mark.parametrize("sub_agents", [[], None])
def test_an_empty_list_of_sub_agents_makes_no_orchestrator(sub_agents: list[str] | None) -> None:
    """Empty and null are the same as leaving it out."""
    configuration = Configuration()
    configuration.agent("shop")["sub_agents"] = sub_agents

    assert not configuration.card().definition.is_orchestrator


def test_an_entry_gets_its_defaults() -> None:
    """Slot and vertical are the id, the arguments ask for a request."""
    definition = Configuration().card().definition

    assert (definition.slot, definition.vertical) == ("shop", "shop")
    assert definition.arguments == DEFAULT_ARGUMENTS
    assert definition.limits.attempt_timeout.total_seconds() == 90
    assert definition.cohort_flag is None


def test_a_chain_of_thousands_of_definitions_is_walked_and_its_circle_found() -> None:
    """Longer than the interpreter's stack is deep."""
    configuration = Configuration()
    leaf = {"description": "Helps.", "role": "native", "model": "nano"}
    chain = [{"id": f"c{index}", **leaf, "sub_agents": [f"c{(index + 1) % 3000}"]} for index in range(3000)]
    configuration.config["agents"] += chain

    (problem,) = configuration.load().problems

    assert problem.field == "agents.c2999.sub_agents[0]"
    assert problem.text.startswith("goes round in a circle: c0 → c1 → ")


def test_definitions_that_are_reached_on_many_ways_are_walked_once() -> None:
    """Sixty layers of two, each listing both below: 2 to the power of 60 ways down, 120 definitions."""
    configuration = Configuration()
    leaf = {"description": "Helps.", "role": "native", "model": "nano"}
    for layer in range(60):
        below = [f"l{layer + 1}a", f"l{layer + 1}b"] if layer < 59 else []
        for side in "ab":
            configuration.config["agents"].append({"id": f"l{layer}{side}", **leaf, "sub_agents": below})

    assert configuration.load().problems == ()


def test_a_flood_of_problems_is_cut_and_says_so() -> None:
    """Five thousand unknown tools: a bounded answer."""
    configuration = Configuration()
    configuration.agent("shop")["tools"] = [f"x{index}" for index in range(5000)]

    problems = configuration.load().problems

    assert len(problems) == PROBLEMS_AT_MOST + 1
    assert problems[-1].render() == "warning: there are more than 500 problems; mend these first"


def test_a_problem_is_one_printable_line_whatever_the_author_wrote() -> None:
    """Line breaks, escapes and right-to-left marks in file, field and text."""
    problem = Problem("a\nb", 3, "f\x1b[31m", f"unknown {quoted(chr(0x202E) + 'x' * 200)}", key="k", suggestion="s\n")

    line = problem.render()

    assert line.isprintable()
    assert line.startswith(r'a\nb:3: f\x1b[31m: unknown "\u202exxx')
    assert line.endswith(r'…"; did you mean "s\n"?')


def test_the_nearest_name_is_offered_only_if_it_is_near() -> None:
    """One slip of the finger, and something else altogether."""
    assert nearest("safty-base", ["safety-base", "persona-x"]) == "safety-base"
    assert nearest("zzz", ["safety-base"]) is None


def test_tokens_are_estimated_from_utf8_bytes_rounded_up() -> None:
    """Four bytes a token; `ü` has two."""
    assert [estimated_tokens(text) for text in ("", "a", "abcd", "abcde", "üüü")] == [0, 1, 1, 2, 2]
