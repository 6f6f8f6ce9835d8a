import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import fields

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.definitions.cards.card import AgentDefinition, Limits, ModelEntry, RunnerRef, ToolEntry, Tuning
from sidecar.core.definitions.files.agent_entries import AGENT_FIELDS, LIMIT_FIELDS, RUNNER_FIELDS, TUNING_FIELDS
from sidecar.core.definitions.files.registry_entries import BLOCK_FIELDS, DATA_ONLY_FIELDS, MODEL_FIELDS, TOOL_FIELDS
from sidecar.settings.values import duration_text
from tests.corpus.bad_configs.cases import expected

REPOSITORY = Path(__file__).parents[3]
EXAMPLE = REPOSITORY / "examples" / "config"
PAGE = (REPOSITORY / "docs" / "definitions.md").read_text("utf-8")
FENCE = re.compile(r"^ *```(\w+)(?: (\S+))?(?: (\S+))?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SECTIONS = {
    "## Agents": AGENT_FIELDS,
    "### tuning": TUNING_FIELDS,
    "### runner": RUNNER_FIELDS,
    "### limits": LIMIT_FIELDS,
    "## Models": MODEL_FIELDS,
    "## Tools": TOOL_FIELDS,
    "## Prompt blocks": BLOCK_FIELDS,
}


def rows_of(heading: str) -> list[str]:
    """Return the names in the first column of the first table below a heading."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    table = section.partition("\n|")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)`", table, re.MULTILINE)


@pytest.mark.parametrize(("heading", "known"), SECTIONS.items(), ids=SECTIONS)
def test_the_reference_lists_every_field_and_no_other(heading: str, known: tuple[str, ...]) -> None:
    """Each table against the fields that the reader accepts, in their order."""
    assert rows_of(heading) == list(known)


CARDS: dict[str, type[msgspec.Struct]] = {
    "## Agents": AgentDefinition,
    "### tuning": Tuning,
    "### runner": RunnerRef,
    "### limits": Limits,
    "## Models": ModelEntry,
    "## Tools": ToolEntry,
}


def shown_defaults(card: type[msgspec.Struct]) -> dict[str, str]:
    """Return, by field, the default of the code as the page writes it; only what can be written in one word."""
    found: dict[str, str] = {}
    for each in fields(card):
        match each.default:
            case bool() | int():
                found[each.encode_name] = str(each.default).lower()
            case timedelta():
                found[each.encode_name] = duration_text(each.default)
            case str() as text if text and card is not AgentDefinition:
                found[each.encode_name] = str(text)
            case ():
                found[each.encode_name] = "[]"
            case msgspec.NODEFAULT if each.default_factory is msgspec.NODEFAULT:
                found[each.encode_name] = "required"
    return found


@pytest.mark.parametrize("heading", CARDS)
def test_the_reference_shows_the_default_of_every_field(heading: str) -> None:
    """As the classes of a card have it: a changed default fails here."""
    section = PAGE.partition(f"\n{heading}\n")[2].partition("\n|")[2].partition("\n\n")[0]
    cells = dict(re.findall(r"^\| `(\w+)`\*? \| ([^|]+) \|", section, re.MULTILINE))

    wrong = {name: said for name, said in shown_defaults(CARDS[heading]).items() if said not in cells[name]}

    assert wrong == {}


def test_the_reference_marks_the_fields_that_only_data_backed_tools_have() -> None:
    """The star in the table of tools."""
    assert set(re.findall(r"^\| `(\w+)`\* ", PAGE, re.MULTILINE)) == set(DATA_ONLY_FIELDS)


def test_the_messages_shown_are_the_messages_printed() -> None:
    """Each line of the example stands in the corpus' expectations."""
    shown = next(body for kind, _, _, body in FENCE.findall(PAGE) if kind == "text" and body.startswith("agent_config"))
    printed = {line for lines in expected().values() for line in lines}

    assert [line for line in shown.splitlines() if line not in printed] == []


def test_the_first_card_of_the_page_loads_as_it_stands(tmp_path: Path) -> None:
    """Its block, tool and entry, put into the example, and the orchestrator's list with `garden` in it."""
    for path in EXAMPLE.rglob("*.yaml"):
        (tmp_path / path.relative_to(EXAMPLE)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.relative_to(EXAMPLE)).write_bytes(path.read_bytes())
    config = yaml.safe_load((EXAMPLE / "agent_config.yaml").read_text("utf-8"))
    for kind, path, section, body in FENCE.findall(PAGE):
        if kind == "yaml" and section:
            config[section] += yaml.safe_load(body)
        elif kind == "yaml":
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(body.replace("\n   ", "\n").removeprefix("   "), "utf-8")
    config["agents"][0]["sub_agents"].append("garden")
    (tmp_path / "agent_config.yaml").write_text(yaml.safe_dump(config), "utf-8")

    loaded = load_directory(tmp_path)

    assert [problem.render() for problem in loaded.problems] == []
    assert loaded.catalogue is not None
    assert "garden" in loaded.catalogue.slots
