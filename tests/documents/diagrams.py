"""Reads the Mermaid diagrams of pages as far as a check needs it: known statements, closed blocks."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

NODE: Final = r"\w+(?:\[\(?[^\[\]]+\)?\]|\(\[[^\[\]]+\]\)|\{[^{}]+\})?"
ARROW: Final = r"(?:-->|-\.->|-- \"[^\"]+\" -->|-\. \"[^\"]+\" \.->)(?:\|[^|]+\|)?"
STATEMENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "flowchart": (rf"{NODE}(?: ?{ARROW} ?{NODE})?", rf"subgraph {NODE}", "end"),
        "sequenceDiagram": (
            r"participant \w+ as .+",
            r"\w+--?>>\w+: .+",
            r"Note over \w+: .+",
            r"par .+",
            "end",
        ),
        "stateDiagram-v2": (r"(?:\w+|\[\*\]) --> (?:\w+|\[\*\])(?:: .+)?",),
    }
)
"""What a line of each kind of diagram may be. A statement of Mermaid that is not here is added with its first use."""
TRANSITION: Final = re.compile(r"^\s*(\w+) --> (\w+)", re.MULTILINE)


def problems_with_diagram(text: str) -> Iterator[str]:
    """Yield each line that GitHub's renderer would stumble over, and a block that is never closed."""
    first, *lines = text.strip().splitlines() or [""]
    statements = STATEMENTS.get(first.partition(" ")[0])
    if statements is None:
        yield f"unknown kind of diagram {first!r}"
        return
    depth = 0
    for line in filter(None, map(str.strip, lines)):
        if not any(re.fullmatch(statement, line) for statement in statements):
            yield f"not a statement of a {first}: {line}"
        depth += line.startswith(("subgraph ", "par ")) - (line == "end")
    if depth:
        yield "a block is not closed, or closed twice"


def transitions_in(text: str) -> set[tuple[str, str]]:
    """Return the moves that a state diagram shows, without its begin and its end."""
    return set(TRANSITION.findall(text))
