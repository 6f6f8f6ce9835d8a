"""Compares the mutants that the tests let live with the list of those that change nothing, and writes the report.

The list, `tests/mutants/equivalent.toml`, names each equivalent mutant by module, function and changed lines, with the
reason why no test can tell it from the original. `tests/mutants/measured.toml` has a digest of each module's code at
its last run, so that the report names the modules that have changed since.

    python -m scripts.mutation_report    writes the report anew without a run, after a change of a mutated module
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
EQUIVALENT: Final = REPOSITORY / "tests/mutants/equivalent.toml"
MEASURED: Final = REPOSITORY / "tests/mutants/measured.toml"
REPORT: Final = REPOSITORY / "docs/mutation-report.md"
KILLED: Final = frozenset({"killed", "timeout"})
"""A mutant that never ends is noticed, too. Whatever else a mutant did, it lived."""


@dataclass(frozen=True, slots=True)
class Place:
    """What identifies a mutant across runs.

    Attributes:
        module: dotted.
        function: name, or `Class.method`.
        change: the lines removed and added, each with its sign and without indentation.
    """

    module: str
    function: str
    change: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}\n" + "\n".join(f"    {line}" for line in self.change.splitlines())


@dataclass(frozen=True, slots=True)
class Equivalent:
    """An entry of the list: mutants of one function that share a reason.

    Attributes:
        places: one for each mutant; a change that a function has twice is listed twice.
    """

    places: tuple[Place, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """One module's line of the table: all but the first two are parts of `mutants`."""

    module: str
    mutants: int
    killed: int
    equivalent: int

    @property
    def surviving(self) -> int:
        """How many neither a test nor the list accounts for."""
        return self.mutants - self.killed - self.equivalent


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a run says beside the list.

    Attributes:
        surviving: live, and not on the list.
        outdated: on the list, and not among the live ones.
    """

    rows: tuple[Row, ...]
    surviving: tuple[Place, ...]
    outdated: tuple[Place, ...]

    @property
    def holds(self) -> bool:
        """Whether each mutant is killed or has its reason, and each reason its mutant."""
        return not self.surviving and not self.outdated


def change_of(diff: str) -> str:
    """Return the changed lines of a unified diff, without file names, positions, context and indentation."""
    changed = (line for line in diff.splitlines() if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"})
    return "\n".join(f"{line[0]} {line[1:].strip()}" for line in changed)


def read_equivalents(text: str) -> tuple[Equivalent, ...]:
    """Return the entries of the list.

    Raises:
        ValueError: an entry without a reason, or without a change.
    """
    found = []
    for entry in tomllib.loads(text).get("equivalent", []):
        module, function, reason = (str(entry.get(name, "")).strip() for name in ("module", "function", "reason"))
        changes = ["\n".join(line.strip() for line in change.strip().splitlines()) for change in entry["changes"]]
        if not (module and function and reason and changes and all(changes)):
            raise ValueError(f"an entry needs module, function, reason and changes: {entry}")
        found.append(Equivalent(tuple(Place(module, function, change) for change in changes), reason))
    return tuple(found)


def compare(totals: dict[str, tuple[int, int]], live: Iterable[Place], known: Sequence[Equivalent]) -> Comparison:
    """Compare a run with the list.

    Args:
        totals: mutants and killed mutants of each module that was looked at; entries on other modules are passed over.
        live: the mutants that were not killed.
        known: the list.
    """
    listed = Counter(place for entry in known for place in entry.places if place.module in totals)
    alive = Counter(live)
    explained = Counter(place.module for place in (alive & listed).elements())
    rows = tuple(Row(module, *counts, explained[module]) for module, counts in sorted(totals.items()))
    return Comparison(rows, tuple((alive - listed).elements()), tuple((listed - alive).elements()))


def table(rows: Sequence[Row]) -> list[str]:
    """Return the rows and their sum as a Markdown table."""
    names = ("mutants", "killed", "equivalent", "surviving")
    total = Row("all", *(sum(getattr(row, name) for row in rows) for name in names[:3]))
    lines = ["| module | mutants | killed | equivalent | surviving |", "|---|--:|--:|--:|--:|"]
    for row in (*rows, total):
        module = row.module.removeprefix("sidecar.")
        lines.append(f"| {module} | " + " | ".join(str(getattr(row, name)) for name in names) + " |")
    return lines


def rows_in(text: str) -> tuple[Row, ...]:
    """Return the rows of a report, without their sum."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| core.")]
    return tuple(Row(f"sidecar.{line[0]}", *map(int, line[1:4])) for line in lines)


def with_newer(before: Iterable[Row], newer: Iterable[Row], modules: Container[str]) -> tuple[Row, ...]:
    """Return rows, each replaced by a newer one of its module; those of modules that have gone are left out."""
    found = {row.module: row for row in (*before, *newer) if row.module in modules}
    return tuple(found[module] for module in sorted(found))


def code_digest(source: str) -> str:
    """Return a digest of a module's code. Comments, docstrings, layout and the version of Python do not count."""
    return sha256(repr(_shape(ast.parse(source))).encode()).hexdigest()[:16]


def _shape(node: object) -> object:
    """Return a syntax tree as nested tuples. Empty fields are left out, because newer versions of Python add some."""
    if isinstance(node, list):
        return tuple(_shape(each) for each in node)
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        fields["body"] = [each for each in node.body if not _is_text(each)]
    named = [(name, _shape(value)) for name, value in fields.items() if value is not None and value != []]
    return (type(node).__name__, *named)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def digests_of_mutated() -> dict[str, str]:
    """Return the digest of the present code of each module that mutmut's settings in `pyproject.toml` name."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    found = {}
    for path in (REPOSITORY / "sidecar").rglob("*.py"):
        name = path.relative_to(REPOSITORY).as_posix()
        if path.stem != "__init__" and any(fnmatch(name, pattern) for pattern in settings["only_mutate"]):
            found[name.removesuffix(".py").replace("/", ".")] = code_digest(path.read_text(encoding="utf-8"))
    return found


def read_measured(text: str) -> dict[str, str]:
    """Return the digest of each module's code at its last run."""
    return {str(module): str(digest) for module, digest in tomllib.loads(text).items()}


def write_measured(measured: Mapping[str, str]) -> str:
    """Return the text that `read_measured` reads."""
    head = "# The code of each module at its last mutation tests; written by `make mutants`.\n"
    return head + "".join(f'"{module}" = "{digest}"\n' for module, digest in sorted(measured.items()))


def changed_since(measured: Mapping[str, str], present: Mapping[str, str]) -> tuple[str, ...]:
    """Return the modules whose code is not that of their last run."""
    return tuple(sorted(module for module, digest in present.items() if measured.get(module) != digest))


def report(rows: Sequence[Row], known: Sequence[Equivalent], changed: Sequence[str]) -> str:
    """Return the committed page.

    Args:
        rows: of all mutated modules.
        known: the list.
        changed: the modules whose code is not that of their last run.
    """
    names = ", ".join(f"`{module.removeprefix('sidecar.')}`" for module in changed)
    lines = [
        "# Mutation report",
        "",
        "`make mutants` changes one detail of the code at a time: a comparison, a constant, an argument, a text. It",
        "does so in the rules that decide which user is served what and what is on record, and runs the unit tests",
        "that reach the changed function. A mutant is killed when a test fails, and equivalent when no test could tell",
        "it from the original. A complete run writes this page, and a run of some modules their rows; the changes",
        "behind the reasons below are in `tests/mutants/equivalent.toml`.",
        "",
        "The table has every mutated module. Of the verification of records (`core/verifying`) nothing is mutated: its",
        "tests change each part of generated records instead, which takes too long to repeat for each mutant.",
        "",
        f"Modules that are new, or have changed, since their last run: {names or 'none'}.",
        "",
        *table(rows),
        "",
        "## Equivalent mutants",
        "",
    ]
    for entry in sorted(known, key=lambda each: (each.places[0].module, each.places[0].function)):
        first = entry.places[0]
        lines += [f"- `{first.module.removeprefix('sidecar.')}.{first.function}` ({len(entry.places)}): {entry.reason}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the report of the rows that it has, with the modules that have changed since their run."""
    rows = rows_in(REPORT.read_text(encoding="utf-8"))
    known = read_equivalents(EQUIVALENT.read_text(encoding="utf-8"))
    measured = read_measured(MEASURED.read_text(encoding="utf-8"))
    changed = changed_since(measured, digests_of_mutated())
    REPORT.write_text(report(rows, known, changed), encoding="utf-8")


if __name__ == "__main__":
    main()
