"""YAML that is changed line by line: what is removed is gone, and every other line is there as it was."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidecar.adapters.definitions_directory.cleanup.checked_yaml import CheckedYaml
from sidecar.adapters.definitions_directory.cleanup.reading import tagged
from sidecar.core.rollout.checkout_inspection import CheckoutRefused

NAMES = ("shop", "rewards", "shop2", "support")


@st.composite
def files(draw: st.DrawFn) -> tuple[str, int]:
    """Return a file with a list of entries, written in many ways, and the number of one of them."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    indent = " " * draw(st.sampled_from([0, 2, 4]))
    lines = ["# top", "agents:" + draw(st.sampled_from(["", " # all of them"]))]
    for name in names:
        lines += draw(st.lists(st.sampled_from(["", f"{indent}# about the next", "# far left"]), max_size=2))
        lines += [f"{indent}{line}" for line in draw(st.sampled_from(entries(name)))]
        lines += draw(st.sampled_from([[], [f"{indent}  # of {name}, at its end"], [""]]))
    lines += draw(st.sampled_from([[], ["", "# the end"], ["tools: []"], ["", "tools: # none", "  []"]]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join(lines) + draw(st.sampled_from(["", newline])), draw(st.integers(0, len(names) - 1))


def entries(name: str) -> list[list[str]]:
    """Return ways to write an entry."""
    return [
        [f"- id: {name}", "  description: Is here. # yes", "  list: [a, b]"],
        [f"- id: '{name}'", "  text: |", "    One line.", "", "    # no comment", "  last: >-", "    Folded."],
        [f"- {{id: {name}, deep: {{a: [1, 2]}}}} # brief"],
        ["-", f"  id: {name}", "  list:", "  - one", "  - two # and last"],
        ["- description: First.", f"  id: {name} # here", "  # in between", "  empty:"],
    ]


@given(files())
def test_an_entry_is_removed_and_every_other_line_stays(drawn: tuple[str, int]) -> None:
    """The file says the same without it; the lines that stay are old ones, in their order."""
    text, number = drawn
    file = CheckedYaml(text, "agent_config.yaml")
    gone = file.data["agents"][number]["id"]
    file.remove("agents", number)
    after = file.text()

    said = yaml.load(text, Loader=yaml.BaseLoader)
    del said["agents"][number]
    assert yaml.load(after, Loader=yaml.BaseLoader) == said
    old = iter(text.splitlines())
    sign = "agents: []"
    assert all(any(line in {one, one.replace("agents:", sign)} for one in old) for line in after.splitlines())
    for comment in ("# top", "# all of them", "# about the next", "# far left", "# the end", "# none"):
        assert after.count(comment) == text.count(comment)
    assert f"# of {gone}," not in after


@given(files())
def test_a_mark_adds_two_lines_and_changes_none(drawn: tuple[str, int]) -> None:
    """An entry gets a status and a comment; without these the file is what it was."""
    text, number = drawn
    file = CheckedYaml(text, "agent_config.yaml")
    file.add_after("status", "deprecated", "agents", number, "id")
    file.comment("minor-change: because", "status", "agents", number)
    after = file.text()

    assert yaml.load(after, Loader=yaml.BaseLoader)["agents"][number]["status"] == "deprecated"
    left = [line.replace(", status: deprecated", "") for line in after.splitlines()]
    assert [line for line in left if line.strip() not in {"status: deprecated", "# minor-change: because"}] == (
        text.splitlines()
    )
    assert ("\r\n" in after, "\n" in after.replace("\r\n", "")) == ("\r\n" in text, "\n" in text.replace("\r\n", ""))


@pytest.mark.parametrize(
    ("before", "steps", "after"),
    [
        ("a: [x, y, z]\n", ("a", 1), "a: [x, z]\n"),
        ("a: [x, y]\n", ("a", 1), "a: [x]\n"),
        ("a: [x, y,]\n", ("a", 0), "a: [y,]\n"),
        ("a: [x]\n", ("a", 0), "a: []\n"),
        ("a: [x,]\n", ("a", 0), "a: []\n"),
        ("a:\n  - x\nb: 1\n", ("a", 0), "a: []\nb: 1\n"),
        ("a: # why\n  - x\n", ("a", 0), "a: [] # why\n"),
        ("a: {x: 1, y: 2}\n", ("a", "x"), "a: {y: 2}\n"),
        ("a:\n  x: 1\n  # of y\n  y: {z: 2}\n", ("a", "x"), "a:\n  # of y\n  y: {z: 2}\n"),
        ("a:\n  x:\n    z: 1\n", ("a", "x"), "a: {}\n"),
        ("\ufeffa: [x, y]\n", ("a", 0), "\ufeffa: [y]\n"),
        ("a:\n  # minor-change: x came\n  - x\n  # of all\n  - y\n", ("a", 0), "a:\n  # of all\n  - y\n"),
    ],
)
def test_what_is_left_reads_as_it_did(before: str, steps: tuple[str | int, ...], after: str) -> None:
    """Lists and mappings, brief and long, down to the empty one."""
    file = CheckedYaml(before, "x.yaml")
    file.remove(*steps)
    assert file.text() == after


@pytest.mark.parametrize("text", ["- - x\n  - y\n- z\n", "- x: 1\n  y: 2\n- z\n", "? x\n: [1, 2]\ny: 1\n"])
def test_what_cannot_be_cut_out_alone_is_left_to_a_person(text: str) -> None:
    """The first child shares its line with its parent, or a key is written out: refused, by file and line."""
    steps: tuple[str | int, ...] = (0, 0) if text.startswith("- -") else (0, "x") if text.startswith("- x") else ("x",)

    def removed() -> str:
        file = CheckedYaml(text, "x.yaml")
        file.remove(*steps)
        return file.text()

    with pytest.raises(CheckoutRefused, match=r"x\.yaml.*change it by hand"):
        removed()


def test_what_is_tagged_for_it_and_nobody_else_is_found() -> None:
    """Items and sections by tag, sections by name, and its place in a list of several; not what only mentions it."""
    manifest = {
        "sub_agents": {"shop": {}, "rewards": {}},
        "categories": [{"name": "offers", "sub_agent": "shop"}, {"name": "both", "sub_agents": ["rewards", "shop"]}],
        "datasets": {"smoke": {"sub_agents": ["shop"]}, "shop": {"text": "shop"}},
        "nested": {"deeper": [{"judges": [{"agent_id": "shop"}, {"agent_id": "rewards"}]}]},
    }
    assert list(tagged(manifest, "shop")) == [
        ("sub_agents", "shop"),
        ("categories", 0),
        ("categories", 1, "sub_agents", 1),
        ("datasets", "smoke"),
        ("nested", "deeper", 0, "judges", 0),
    ]
