import re
from pathlib import Path

import yaml

from scripts import document_card_fields
from scripts.document_card_fields import SECTIONS
from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.definitions.files.registry_entries import DATA_ONLY_FIELDS
from tests.corpus.bad_configs.cases import expected

REPOSITORY = Path(__file__).parents[3]
EXAMPLE = REPOSITORY / "examples" / "config"
PAGE = (REPOSITORY / "docs" / "definitions.md").read_text("utf-8")
FENCE = re.compile(r"^ *```(\w+)(?: (\S+))?(?: (\S+))?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def test_the_reference_is_current_and_says_something_of_every_field() -> None:
    """Else: `python -m scripts.document_card_fields`."""
    assert document_card_fields.PAGE.read_text("utf-8") == document_card_fields.page()
    for section in SECTIONS:
        table = section_of(section.title)
        assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(section.known)
        assert re.findall(r"^.*\|  \|.*$", table, re.MULTILINE) == []


def test_types_defaults_and_data_only_fields_are_those_of_the_classes() -> None:
    """A sample of each kind."""
    limits, tools = section_of("limits"), section_of("Tools")
    assert "| `attempt_timeout` | time | `90s` | maximum duration of one attempt" in limits
    assert "| `idle_timeout` | time | no limit | maximum time" in limits
    assert "| `operation`* | `read`, `idempotent`, `effect` | `effect` | what a call changes" in tools
    assert set(re.findall(r"^\| `(\w+)`\* ", tools, re.MULTILINE)) == set(DATA_ONLY_FIELDS)


def section_of(title: str) -> str:
    """Return the table below a heading of the reference."""
    return document_card_fields.page().partition(f"# {title}\n")[2].partition("\n#")[0]


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
