import pytest

from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS
from sidecar.core.definitions.files.problems import Problem, Severity, nearest, quoted
from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.definitions.resolve import PROBLEMS_AT_MOST
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
@pytest.mark.parametrize(
    ("number", "severity"), [(7, None), (8, Severity.WARNING), (10, Severity.WARNING), (11, Severity.ERROR)]
)
def test_up_to_seven_sub_agents_are_fine_up_to_ten_warn_more_are_refused(
    number: int, severity: Severity | None
) -> None:
    """The bounds and their neighbours."""
    severities = [problem.severity for problem in with_sub_agents(number).load().problems]

    assert severities == ([] if severity is None else [severity])


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
    heaviest = max(tokens.values())
    configuration.config["models"][0]["context_window"] = heaviest * 100 // percent

    loaded = configuration.load()

    found = [problem.severity for problem in loaded.problems if problem.field == "agents.shop.prompt_blocks"]
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
