"""Golden sets as files: what is wrong in one is said with file and line, and what no case covers is said too."""

from pathlib import Path

import pytest

from subagents_evals.inputs.cases import Case, EarlierTurn, Kind, read_golden_set
from subagents_evals.inputs.configuration import capabilities_of, read_configuration
from subagents_evals.inputs.coverage import gaps, unknown_capabilities
from subagents_evals.inputs.strict_yaml import UnusableFile
from tests.architecture.reading import REPOSITORY
from tests.support.requirement import requirement

EXAMPLE = REPOSITORY / "examples" / "config"
SUITE = "version: 1\nsub_agents:\n  shop: {answer: An offer.}\n  rewards: {answer: Points.}\n"
HEAD = "version: 1\ncases:\n  - {id: first, message: Hello, calls: []}\n"


def golden(folder: Path, cases: str, suite: str = SUITE) -> Path:
    """Write a golden set."""
    (folder / "suite.yaml").write_text(suite, "utf-8")
    (folder / "cases.yaml").write_text(cases, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (
            HEAD + "  - {id: second, message: Hi, calls: [travel]}",
            "cases.yaml:4: second: `calls` (line 4) names the sub",
        ),
        (
            HEAD + "  - id: second\n    message: Hi\n    call: [shop]",
            "cases.yaml:4: Object contains unknown field `call`",
        ),
        (HEAD + "  - id: second\n    message: Hi\n    calls: shop", "cases.yaml:6: Expected `array`, got `str`"),
        (HEAD + "  - id: second\n    message: Hi", "cases.yaml:4: Object missing required field `calls`"),
        (HEAD + "  - {id: first, message: Hi, calls: []}", "cases.yaml:4: the id 'first' is used at"),
        (
            HEAD + "  - {id: a, message: Hi, calls: [shop], forbidden: [shop]}",
            "'shop' is in `calls` and in `forbidden`",
        ),
        (
            HEAD + "  - {id: a, message: Hi, calls: [shop], needs: {rewards: [x]}}",
            "`needs` names 'rewards', which is not",
        ),
        (HEAD + "  - {id: a, kind: switch, message: Hi, calls: [shop]}", "cases.yaml:4: a: a switch needs a `history`"),
        (HEAD + "  - {id: a, kind: compaction, message: Hi, calls: []}", "needs `compacted: true`"),
        (HEAD + "  - {id: a, message: Hi, calls: [], faults: {shop: eror}}", "cases.yaml:4: "),
        (HEAD + "  - {id: a, id: b, message: Hi, calls: []}", "cases.yaml:4: the key 'id' is repeated"),
        (HEAD + "  - &x {id: a, message: Hi, calls: []}", "cases.yaml:4: aliases and anchors are not allowed"),
        ("version: 2\ncases: []", "cases.yaml:1: `version` must be 1"),
        ("version: 1\ncases: [", "cases.yaml:2: "),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_line(cases: str, said: str, tmp_path: Path) -> None:
    """One mistake each; the message names the place and the problem."""
    with pytest.raises(UnusableFile) as refused:
        read_golden_set(golden(tmp_path, cases))

    assert said in str(refused.value)


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    """Two files, three mistakes, three lines."""
    folder = golden(tmp_path, HEAD + "  - {id: a, message: Hi, calls: [x]}\n  - {id: b, message: Hi, calls: [y]}")
    (folder / "more.yaml").write_text("version: 1\ncases: 3\n", "utf-8")

    with pytest.raises(UnusableFile) as refused:
        read_golden_set(folder)

    assert len(str(refused.value).splitlines()) == 3


@pytest.mark.parametrize("missing", ["suite.yaml", "cases.yaml"])
def test_a_set_without_suite_or_cases_is_refused(missing: str, tmp_path: Path) -> None:
    """The message names the folder or the file."""
    golden(tmp_path, HEAD).joinpath(missing).unlink()

    with pytest.raises(UnusableFile, match=r"suite\.yaml"):
        read_golden_set(tmp_path)


@requirement("PC2-NFR-6", "PF1-T-12")
def test_the_example_set_covers_every_switch_language_and_declared_capability() -> None:
    """Three verticals: six ordered pairs, five languages each, every tool and ownership of the cards."""
    configuration = read_configuration(EXAMPLE)
    capabilities = capabilities_of(configuration)
    found = read_golden_set(EXAMPLE / "evals")

    assert list(unknown_capabilities(found, capabilities)) == []
    assert list(gaps(found, configuration.slots, capabilities)) == []
    assert {case.switch for case in found.cases if case.switch} == {
        (before, after) for before in configuration.slots for after in configuration.slots if before != after
    }


@requirement("PC2-NFR-6", "PF1-T-12")
def test_whatever_no_case_covers_is_named(tmp_path: Path) -> None:
    """One switch of two, one of two languages, one of two capabilities, one of the kinds."""
    suite = SUITE + "languages: [en, de]\n"
    cases = (
        "  - {id: one, message: Hi, calls: [shop], covers: [offers]}\n"
        "  - id: two\n    kind: switch\n    message: Hi\n    calls: [rewards]\n"
        "    history: [{user: Hi, assistant: An offer., called: [shop]}]\n"
    )
    found = read_golden_set(golden(tmp_path, HEAD + cases, suite))

    said = list(gaps(found, ["shop", "rewards"], {"shop": ["offers", "search_offers"]}))

    assert "shop: no case of kind switch leads from rewards to shop" in said
    assert "rewards: no case of kind switch leads from shop to rewards" not in said
    assert "shop: no case in the language de" in said
    assert "shop: no case covers search_offers, which the card declares" in said
    assert not any("covers offers" in one for one in said)
    assert "no case of kind recall" in said


def test_a_covered_capability_that_no_card_declares_is_a_mistake(tmp_path: Path) -> None:
    """A capability that was renamed in the card must not go on counting as covered."""
    found = read_golden_set(golden(tmp_path, HEAD + "  - {id: one, message: Hi, calls: [shop], covers: [discounts]}"))

    (said,) = unknown_capabilities(found, {"shop": ["offers"]})

    assert said.endswith("cases.yaml:4: one: `covers` names 'discounts', which no called card declares")


def test_a_switch_is_from_the_last_turn_that_called_one_sub_agent() -> None:
    """The pair is ordered; two calls make no pair."""
    earlier = (EarlierTurn("Hi", "An offer.", ("shop",)),)
    one = Case(id="a", message="Hi", calls=("rewards",), kind=Kind.SWITCH, history=earlier)
    two = Case(id="a", message="Hi", calls=("rewards", "shop"), kind=Kind.SWITCH, history=earlier)

    assert (one.switch, two.switch) == (("shop", "rewards"), None)
