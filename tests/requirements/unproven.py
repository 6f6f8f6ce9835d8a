"""Rows of the catalogue that no test proves, each with the reason.

A reason begins in one of five ways:

- `later: <title>`: an open issue will bring the behaviour and its test; the title is one of `OPEN_ISSUES`.
- `needs eval sets: <what for>`: only a real model, or real traffic, can settle it.
- `document row: <where or why>`: a commitment about people, order of work or reference figures, not behaviour.
- `owned elsewhere: <who>`: the row itself gives the matter to another project.
- `not built: <what there is instead>`: the row allows for it or asks for it, and there is nothing to test.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

OPEN_ISSUES: Final = frozenset[str]()
"""Titles that `later:` may name; a title leaves this set when its issue is done."""

EVALS: Final = "needs eval sets:"
"""What `sidecar eval` measures has tests; this begins what only a real model or real traffic can give."""


def expand(group: str) -> Iterator[str]:
    """The ids of one compact group: a prefix, a colon, then endings and ranges of numbers.

    `"PC1-T: 6..8 10a"` gives PC1-T-6, PC1-T-7, PC1-T-8 and PC1-T-10a.

    Raises:
        ValueError: the group has no colon, or a range does not rise.
    """
    prefix, colon, endings = group.partition(":")
    if not colon:
        raise ValueError(f"unproven.py: no colon in {group!r}; write `PREFIX: endings`")
    for ending in endings.split():
        first, dots, last = ending.partition("..")
        if not dots:
            yield f"{prefix}-{ending}"
            continue
        if int(last) <= int(first):
            raise ValueError(f"unproven.py: {ending} in {group!r} does not rise; put the smaller number first")
        yield from (f"{prefix}-{number}" for number in range(int(first), int(last) + 1))


def reasons(entries: Iterable[tuple[str, tuple[str, ...]]]) -> Mapping[str, str]:
    """Each id of the groups with its reason, in the order written.

    Raises:
        ValueError: an id stands under two reasons, or twice under one.
    """
    found: dict[str, str] = {}
    for reason, groups in entries:
        for one in (one for group in groups for one in expand(group)):
            if one in found:
                raise ValueError(f"unproven.py: {one} is there twice; leave one reason for it")
            found[one] = reason
    return MappingProxyType(found)


UNPROVEN: Final = reasons(
    (
        (f"{EVALS} 200 mixed-intent messages on gpt-5.4-nano: a figure of that model", ("PC1-NFR: 2a 2b",)),
        (
            f"{EVALS} a model that reads the orchestrator's prompt; the offline router reads descriptions",
            ("PC1-D: 53",),
        ),
        (
            f"{EVALS} messages at production scale: `sidecar eval sample` takes them where there is traffic",
            ("PC2-NFR: 3c",),
        ),
        (
            f"{EVALS} what a real model writes into `prior_context`; the recall of planted values is held",
            ("PC1-FR: 8b",),
        ),
        (f"{EVALS} one voice and short transitions: a style that only a judge of a real model can see", ("PC2-D: 18",)),
        ("owned elsewhere: PC3 (client error telemetry, status vocabulary, rendering, wire form)", ("PC1-FR: 5d 13d",)),
        ("owned elsewhere: PC3 (vocabulary, wire form, interleaving and error frames)", ("PC2-FR: 13c",)),
        ("owned elsewhere: PC3 (SSE shape, client telemetry, interleaving, `is_final`)", ("PC2-D: 42 50 54 66",)),
        (
            "owned elsewhere: PC6, whose schema it is; what ours holds: PF1-D-16, 40, 49",
            ("PF1-D: 19",),
        ),
        ("owned elsewhere: PC5 (gate definitions and what counts as major in numbers)", ("PF1-D: 61 68",)),
        ("owned elsewhere: PLT-609, whose Phase C report gives the latency to stay below", ("PC2-NFR: 1b",)),
        ("owned elsewhere: the teams that run the network and IAM borders of CCS", ("PC2-D: 36",)),
        ("owned elsewhere: the tracing infrastructure; what we emit is PC2-FR-15a to 15e", ("PC2-D: 56",)),
        (
            "document row: latencies of the replaced variant, kept as reference only (TN-52)",
            ("PC1-NFR: 1a 1b 1c 1d", "PC1-D: 59"),
        ),
        ("document row: names the one home of these rules; PC2-FR-6a to 8a prove them", ("PC1-FR: 4b",)),
        ("document row: says that the figures under the cap are PC2's (PC2-NFR-3, PC2-NFR-7)", ("PC1-NFR: 2c",)),
        ("document row: an operating decision on the cost that PC1-NFR-7d follows", ("PC1-NFR: 7e",)),
        (
            "not built: a target in dollars by user and month; PC1-NFR-7a gives the cost of each turn's extra calls",
            ("PC1-NFR: 7d",),
        ),
        ("document row: settled by a newcomer who tries it with docs/, not by a program", ("PC1-AC: 1",)),
        ("document row: change control of blocks is git and review, outside the program", ("PC1-D: 36",)),
        ("document row: order of work, tickets and migrations", ("PC1-D: 56 57", "PC2-D: 59", "PF1-D: 70")),
        ("document row: a zero observed in production; PC2-FR-12d proves that it is counted", ("PC2-NFR: 4a",)),
        ("document row: the gap is written down with the cap setting; a third vertical closes it", ("PC2-NFR: 7",)),
        ("document row: how people mend weak routing, by reviewed change of text", ("PC2-D: 44 45",)),
        ("document row: a statement of scope", ("PC2-D: 62", "PF1-D: 71 72 78")),
    )
)
"""Id -> reason. An id that has a test must not stand here."""
