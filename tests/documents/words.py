"""Words and names that the project has given up: where they still are, and how many each file may still have.

`docs/glossary.md` says what to write instead. `python -m tests.documents.words` lowers the allowances of better files.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.architecture.reading import REPOSITORY

WORDS: Final = re.compile(
    r"\b(?:whoever|somebody|anybody|nobody|(?:goes|gone)\s+on|c[oa]mes?\s+of|lets?\s+go|brings\s+along|stands\s+for)\b",
    re.IGNORECASE,
)
NAMES: Final = re.compile(
    r"\b(?:(?:Rollout|Session)?Surroundings?|Errand|Seldom|Going|CarryOut|GoOn|LostWork|LetFlagsGo|SeeDefinitions"
    r"|FlagsByHand|FlagsKeptElsewhere|RampDownAtOnce|StopFirst|\w+Wish|Gatekeeper|TakeStep|KeptDefinitions|SaysWhoEnds|SaysWhatIsPinned"
    r"|Undraftable|Drafted|DispatchReading|TurnReading|EpisodeUse|Unfitting|Undecodable|OffLoop|HeldCards|Lingering"
    r"|OperatorDoor|SystemChance|MemoryBorder|ConnectorBorder|AuditBorder|ReadsAudit|GatesSaid|LastSaid|FlagsThen)\b"
    r"|class _?(?:Found|Said|Asked|Asking|Held|Kept|Outside|Standing|Taken|Begun|Judged|Happening|Behind|Wished)\b"
    r"|Join the parts|\b(?:serve_unflagged_entries_at_once|sub_agents_at_most|kills_file|look_every|events_kept)\b"
)
"""Names of classes that were renamed, and public settings that `docs/settings.md` no longer has."""
READ: Final = (
    *("*.md", "docs/**/*.md", "plugins/**/*.md", "clients/*/README.md", "proto/**/*.md"),
    *("proto/**/*.proto", "sidecar/**/*.py", "clients/*/subagents_*/**/*.py", "plugins/*/sidecar_*/**/*.py"),
    *("examples/**/*.py", "examples/**/*.toml", "examples/**/*.yaml", "examples/**/*.yml"),
)
EXEMPT: Final = frozenset(
    {"DECISIONS.md", "docs/glossary.md", "docs/evidence/readers-2.md", "docs/evidence/readers-3.md"}
)
"""History, which is not rewritten, and pages that list or quote the words."""
LEFT: Final = Path(__file__).with_name("words_left.txt")


def given_up_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and word of each use of a given-up word or name. A word may be broken by a line's end."""
    for pattern in (WORDS, NAMES):
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match[0]


def uses(root: Path = REPOSITORY) -> Mapping[str, list[tuple[int, str]]]:
    """Return the uses in each file that has any, by the file's path from `root`."""
    files = sorted({path for pattern in READ for path in root.glob(pattern) if "node_modules" not in path.parts})
    found = {file.relative_to(root).as_posix(): sorted(given_up_in(file.read_text("utf-8"))) for file in files}
    return {file: there for file, there in found.items() if there and file not in EXEMPT}


def allowed(text: str) -> Mapping[str, int]:
    """Return how many uses each file may still have, from lines such as `12 sidecar/rpc/health.py`."""
    return {file: int(count) for count, _, file in (line.partition(" ") for line in text.splitlines())}


def problems(found: Mapping[str, list[tuple[int, str]]], most: Mapping[str, int]) -> Iterator[str]:
    """Yield each file with more uses than it may have, with the places, and each allowance that is too high."""
    for file, there in found.items():
        if len(there) > most.get(file, 0):
            places = ", ".join(f"{line}: {word}" for line, word in there)
            yield f"{file} has {len(there)}, may have {most.get(file, 0)}; docs/glossary.md has better words ({places})"
    for file, count in most.items():
        if len(found.get(file, ())) < count:
            yield f"{file} got better: lower its allowance with `python -m tests.documents.words`"


def lowered(found: Mapping[str, list[tuple[int, str]]], most: Mapping[str, int] | None) -> str:
    """Return the list with every allowance lowered to what is there; None: the first list."""
    counts = {file: len(there) if most is None else min(len(there), most.get(file, 0)) for file, there in found.items()}
    return "".join(f"{count} {file}\n" for file, count in sorted(counts.items()) if count)


if __name__ == "__main__":
    LEFT.write_text(lowered(uses(), allowed(LEFT.read_text("utf-8")) if LEFT.exists() else None), encoding="utf-8")
