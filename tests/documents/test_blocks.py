"""Every fenced block of every page is read, parsed or run by the program it is for; or the table says why it is not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pytest

from sidecar.core.executing import states as execution
from sidecar.core.rollout import states as lifecycle
from tests.architecture.reading import REPOSITORY
from tests.documents import commands
from tests.documents.blocks import Block, blocks, blocks_of
from tests.documents.diagrams import problems_with_diagram, transitions_in
from tests.documents.held import HELD, ReadBy, RunBy
from tests.documents.reading import problems_with_definitions, problems_with_json, problems_with_settings


def problems_with_commands(block: Block) -> Sequence[str]:
    """Parse each command with the program's own parser."""
    return commands.problems_with(block.kind, block.text)


CHECKS: Final[Mapping[str, Callable[[Block], Sequence[str]]]] = {
    "console": problems_with_commands,
    "sh": problems_with_commands,
    "": problems_with_commands,
    "toml": problems_with_settings,
    "yaml": problems_with_definitions,
    "json": problems_with_json,
    "mermaid": lambda block: list(problems_with_diagram(block.text)),
}
"""What holds a block of a kind. Of JSON this says little, so the table has to name what holds it to the program."""
NEED_MORE: Final = frozenset({"json"})


def problems_with(block: Block) -> Iterator[str]:
    """Yield what is wrong with one block, and that nothing is known of it."""
    held = HELD.get(block.name) or HELD.get(block.page)
    check = CHECKS.get(block.kind)
    if held is None and (check is None or block.kind in NEED_MORE):
        yield "a new block: name the test that runs it, or write why it cannot run, in tests/documents/held.py"
    if isinstance(held, ReadBy):
        held.read(block)
    elif check is not None and held is None:
        yield from check(block)


@pytest.mark.parametrize("page", sorted({each.page for each in blocks()}))
def test_every_block_of_a_page_is_what_it_says(page: str) -> None:
    """Commands parse, settings and definitions load, samples are run by a test."""
    found = {each.name: list(problems_with(each)) for each in blocks() if each.page == page}

    assert {name: problems for name, problems in found.items() if problems} == {}


def test_the_table_names_blocks_and_tests_that_are_there() -> None:
    """Else a reason would outlive its block, and a sample would lose its test unseen."""
    there = {name for each in blocks() for name in (each.name, each.page)}
    tests = [held.test.partition("::") for held in HELD.values() if isinstance(held, RunBy)]

    assert [name for name in HELD if name not in there] == []
    assert [(file, name) for file, _, name in tests if name not in (REPOSITORY / file).read_text("utf-8")] == []


def test_the_state_diagrams_show_the_moves_of_the_code() -> None:
    """Of a child, and of a definition: neither a move too many nor one too few."""
    diagrams = [each.text for each in blocks() if each.text.startswith("stateDiagram") and "architecture" in each.page]

    assert [transitions_in(text) for text in diagrams] == [
        {(str(source), str(target)) for source, targets in execution.MOVES.items() for target in targets},
        {(str(source), str(target)) for source, targets in lifecycle.MOVES.items() for target in targets},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```python\nprint(1)\n```", "a new block"),
        ("```json\n{}\n```", "a new block"),
        ("```\nwhatever this is\n```", "unknown program 'whatever'"),
        ("```rust\nfn main() {}\n```", "a new block"),
        ("```mermaid\nflowchart LR\n    a -> b\n```", "not a statement of a flowchart LR: a -> b"),
        ("```mermaid\nflowchart LR\n    subgraph a\n```", "a block is not closed"),
        ("```mermaid\npie\n```", "unknown kind of diagram"),
        ("```console\n$ sidecar subagent ramp\n```", "Missing argument"),
        ("```console\n$ sidecar subagent ramp shop 5 --resaon x\n```", "No such option: --resaon"),
        ("```console\n$ T=$(sidecar token mint --nothing) && true\n```", "No such option"),
        ("```sh\nmake nothing\n```", "there is no make nothing"),
        ("```sh\npython -m examples.nothing --port 1 &\n```", "there is no module examples.nothing"),
        ("```sh\npython -m examples.ccs --prot 1 &\n```", "has no --prot"),
        ("```sh\ncurl localhost:8480/v2/enrich\n```", "no example serves /v2/enrich"),
        ("```sh\nif true\n```", "syntax error"),
        ("```toml\n[targets.slot]\nshop = 'unix:/x'\n```", "no such setting"),
        ("```toml\n[targets.slots]\nshop = '/x'\n```", "must begin with its scheme"),
        ("```toml\n[policy.default]\nrunner = 'grcp'\n```", "no runner named `grcp`"),
        (
            "```toml\n[flags.file]\nplugin = 'file'\npath = '/x'\nevery = 1\n```",
            "the settings of the flag-backend `file` are wrong",
        ),
        ("```yaml\n- id: shop\n  tools: [serch]\n```", "unknown tool"),
        ("```yaml\nlimits: {depth: 1}\n```", "unknown field"),
    ],
)
def test_a_block_that_is_wrong_is_caught(text: str, said: str) -> None:
    """One of each kind, planted."""
    (planted,) = blocks_of("docs/planted.md", f"# Planted\n\n{text}\n")

    assert said in " ".join(problems_with(planted))
