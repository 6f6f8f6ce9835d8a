"""Writes `docs/evidence/isolation-and-required-blocks.md`: what is guaranteed, how it is held, which tests show it.

The tests are those that carry the rows below; they are run, and the page says how each ended, at which commit, when.
`--check` runs nothing, and only compares which tests the page lists. Source: PC1-D-60.
"""

import ast
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.requirements import CATALOGUE
from tests.requirements.claims import claims_under

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs/evidence/isolation-and-required-blocks.md"
SECONDS: Final = 900
NO_RUN: Final = "Run on no day."


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One thing that an auditor asks for.

    Attributes:
        rows: of the catalogue, which its tests carry.
        held: by what, in words, with places in the source.
    """

    title: str
    rows: tuple[str, ...]
    held: str


GUARANTEES: Final = (
    Guarantee(
        "A sub-agent reads its own turns of its own session, and nobody else's",
        ("PC1-FR-7a", "PC1-FR-7b", "PC1-FR-9b", "PC1-D-29", "PC1-D-32"),
        "Every answer is kept under the slot that gave it (`core/history/records.py`). `ReadOwnTurns` has no field for "
        "a sub-agent, a session or a user: the grant of the running attempt decides all three "
        "(`operations/history/read_history.py`). The databases read rows of that slot and episode only (`own_turns` of "
        "`adapters/memory_sqlite` and `adapters/memory_postgresql`), and whatever a memory gives is checked once more "
        "before it leaves (`core/history/isolation.py`); what fails that check is left out and raises the alert "
        "`ForeignHistory`. The service of whole episodes is not served on the sub-agents' listener.",
    ),
    Guarantee(
        "Narration, components and summary are kept apart",
        (
            *("PC1-FR-9a", "PC1-FR-10a", "PC1-FR-10b", "PC1-FR-10c", "PC1-FR-10d", "PC1-FR-10e", "PC1-FR-10f"),
            *("PC1-FR-10g", "PC1-D-25", "PC1-D-26", "PC1-D-28", "PC1-D-30", "PC1-D-50"),
        ),
        "Component data in an assistant's body is refused at `EndTurn`, in a runner's answer, and by every memory "
        "(`core/history/message_layers.py`). Components are tool messages of their own, keyed by `turn_id`; a model is "
        "given narration and references, no payload. What the classifier path left behind is taken apart by "
        "`sidecar history backfill`; what nobody tagged belongs to no sub-agent.",
    ),
    Guarantee(
        "The required platform blocks are in every prompt that faces a vertical",
        (
            *("PC1-FR-12a", "PC1-FR-12b", "PC1-FR-12c", "PC1-D-18", "PC1-D-39", "PC1-D-48", "PC1-D-49"),
            *("PC1-T-2", "PC1-T-19"),
        ),
        "The three blocks are put at the head of the prompt when a definition is loaded, whether a vertical lists them "
        "or not (`core/definitions`); a registry without one of them does not load, so that no turn is bound to it. "
        "`sidecar validate` says the same before a merge, and `sidecar codeowners` names who reviews a block.",
    ),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One test as the page shows it."""

    path: str
    test: str
    case: str
    rows: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Return its name as words."""
        return self.test.rpartition(".")[2].removeprefix("test_").replace("_", " ")

    @property
    def node(self) -> str:
        """Return what pytest calls it."""
        return f"{self.path}::{self.test.replace('.', '::')}"


def shown_by(guarantee: Guarantee) -> Sequence[Shown]:
    """Return the tests that carry a row of the guarantee, by file and name."""
    found = []
    for claim in claims_under(ROOT):
        rows = tuple(row for row in guarantee.rows if row in claim.ids)
        if rows and Path(claim.path).name.startswith("test_") and "tests/requirements/" not in claim.path:
            found.append(Shown(claim.path, claim.test, _case_of(claim.path, claim.test), rows))
    return sorted(found, key=lambda each: (each.path, each.test))


def _case_of(path: str, test: str) -> str:
    """Return the first line of a test's docstring."""
    scope: list[ast.stmt] = _tree_of(path).body
    node: ast.stmt | None = None
    for name in test.split("."):
        node = next(each for each in scope if getattr(each, "name", None) == name)
        scope = getattr(node, "body", [])
    said = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
    return (said or "").split("\n")[0]


@cache
def _tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def page_of(results: Mapping[str, str], ran: str) -> str:
    """Return the page.

    Args:
        results: how each test ended, by node.
        ran: when and at which commit, in one sentence.
    """
    lines = [
        "# Evidence: isolation and required blocks",
        "",
        "Written by `make evidence`, which runs the tests named here; do not edit. A test of the pipeline fails when",
        "this page does not list exactly the tests that carry these requirement rows.",
        "",
        ran,
        "",
    ]
    for guarantee in GUARANTEES:
        lines += [f"## {guarantee.title}", "", guarantee.held, "", "| requirement | what it says |", "|---|---|"]
        lines += [f"| {row} | {CATALOGUE[row].sentence} |" for row in guarantee.rows]
        lines += ["", "| what the test shows | its case | rows | where | result |", "|---|---|---|---|---|"]
        for shown in shown_by(guarantee):
            result = results.get(shown.node, "not run")
            cells = (shown.sentence, shown.case, ", ".join(shown.rows), f"`{shown.path}`", result)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def listed_in(page: str) -> Sequence[str]:
    """Return a page without what a run adds: its results, its commit and its date."""
    lines = [line for line in page.splitlines() if not line.startswith("Run on ")]
    return [line.rpartition(" | ")[0] if line.count(" | ") >= MOST_CELLS else line for line in lines]


MOST_CELLS: Final = 4
"""Separators in a row of the table of tests; other tables have fewer."""


def run_tests(nodes: Sequence[str]) -> Mapping[str, str]:
    """Run tests and return how each ended, over all its cases."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        told = ["-o", "junit_family=xunit1", f"--junitxml={report}", "--continue-on-collection-errors"]
        command = [sys.executable, "-m", "pytest", "-q", *told, *nodes]
        subprocess.run(command, cwd=ROOT, check=False, timeout=SECONDS)
        ended: dict[str, list[str]] = {}
        for case in ET.parse(report).iter("testcase"):  # noqa: S314  pytest wrote it a moment ago
            file, owner = case.get("file") or "", (case.get("classname") or "").rpartition(".")[2]
            inside = f"{owner}::" if owner != Path(file).stem else ""
            name = (case.get("name") or "").partition("[")[0]
            ended.setdefault(f"{file}::{inside}{name}", []).append(_ended(case))
    return {node: _together(all_of_it) for node, all_of_it in ended.items()}


def _ended(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "FAILED"
    return "skipped" if case.find("skipped") is not None else "passed"


def _together(ended: Sequence[str]) -> str:
    worst = next((each for each in ("FAILED", "skipped") if each in ended), "passed")
    return worst if len(ended) == 1 else f"{worst} ({len(ended)} cases)"


def _ran() -> str:
    program = shutil.which("git") or "git"

    def git(*arguments: str) -> str:
        command = [program, *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{PAGE.relative_to(ROOT)}")
    state = ", with changes that are not committed" if changed else ""
    return f"Run on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit `{git('rev-parse', 'HEAD')}`{state}."


def main() -> int:
    """Run the tests and write the page; or only compare."""
    if "--check" in sys.argv:
        current = listed_in(page_of({}, NO_RUN)) == listed_in(PAGE.read_text("utf-8"))
        sys.stdout.write("" if current else f"{PAGE.relative_to(ROOT)} is not current: run `make evidence`\n")
        return int(not current)
    nodes = dict.fromkeys(shown.node for guarantee in GUARANTEES for shown in shown_by(guarantee))
    results = run_tests(list(nodes))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page_of(results, _ran()), "utf-8")
    failed = [node for node in nodes if not results.get(node, "FAILED").startswith("passed")]
    sys.stdout.writelines(f"not passed: {node}\n" for node in failed)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
