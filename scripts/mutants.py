"""Runs the mutation tests, compares the live mutants with `tests/mutants/equivalent.toml`, and writes the report.

    python -m scripts.mutants                                  every module; quick if little changed since the last run
    python -m scripts.mutants sidecar.core.rollout.serving     one module or more, and their rows of it
    python -m scripts.mutants --from-scratch                   also what earlier runs killed in unchanged functions
    python -m scripts.mutants --compare                        runs nothing: compares what the last run left

Ends with 1 if a mutant lives without a reason, or a reason has no live mutant. Needs the environment of `make mutants`.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from scripts.mutation_report import (
    EQUIVALENT,
    KILLED,
    MEASURED,
    REPORT,
    REPOSITORY,
    Place,
    change_of,
    changed_since,
    compare,
    digests_of_mutated,
    read_equivalents,
    read_measured,
    report,
    rows_in,
    table,
    with_newer,
    write_measured,
)

WORK: Final = REPOSITORY / "mutants"
NOTED: Final = ".meta"
"""What mutmut adds to a source file's name for its notes about that file's mutants."""
SECONDS_BETWEEN_LINES: Final = 15.0
LEFT_OUT: Final = (
    "tests/unit/envelopes/test_properties.py",
    "tests/unit/observability",
    "tests/unit/dispatching/test_read_once.py",
    "tests/unit/journal/test_cost.py",
    "tests/unit/journal/test_deriving.py",
    "tests/unit/journal/test_opening.py",
    "tests/unit/journal/test_rules_and_today.py",
    "tests/unit/journal/test_translation.py",
    "tests/unit/journal/test_turn_rows.py",
)
"""A hundred thousand envelopes, or hundreds of drawn turns, for each mutant would take days. Some tests reach a rule
only by the way. Others count calls, which mutmut replaces by calls of its own."""
UNPLANTED: Final = ("-k 'not (test_a_defect_is_found or test_rules_that_refuse_too_much_are_found)'",)
"""These tests plant a defect of their own in the function that mutmut has replaced."""
QUICKER: Final = {
    "PYTHONUNBUFFERED": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": " ".join(
        ["-p no:unraisableexception", "-p no:threadexception", *(f"--ignore={path}" for path in LEFT_OUT), *UNPLANTED]
    ),
}
"""Each mutant is a run of pytest, which looks for plugins first and collects garbage five times at its end."""


def notes() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each mutated file, relative to the repository, with mutmut's notes on it."""
    for path in sorted(WORK.glob(f"sidecar/**/*.py{NOTED}")):
        source = path.relative_to(WORK).with_suffix("")
        if (REPOSITORY / source).exists():
            yield source, json.loads(path.read_text(encoding="utf-8"))


def module_of(source: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(source.with_suffix("").parts).removesuffix(".__init__")


def function_of(mutant: str) -> str:
    """Return the function or `Class.method` that mutmut's name of a mutant says."""
    mangled = mutant.rpartition(".")[2].partition("__mutmut_")[0]
    return mangled.removeprefix("x").replace("ǁ", ".").removeprefix("_").removeprefix(".")


def forget(*, everything: bool) -> None:
    """Let mutmut ask again about what lived, and copy sources again that it copies only once.

    Args:
        everything: also what was killed.
    """
    if everything:
        shutil.rmtree(WORK, ignore_errors=True)
    for copy in WORK.glob("sidecar/**/*.py"):
        source = REPOSITORY / copy.relative_to(WORK)
        if not source.exists() or not (copy.with_name(copy.name + NOTED).exists() or filecmp.cmp(source, copy, False)):
            copy.unlink()
    statuses = status_names()
    for source, noted in notes():
        codes = noted["exit_code_by_key"]
        kept = {name: code if statuses[code] in KILLED else None for name, code in codes.items()}
        if kept != codes:
            path = WORK / f"{source}{NOTED}"
            path.write_text(json.dumps(noted | {"exit_code_by_key": kept}), encoding="utf-8")


def status_names() -> Mapping[int | None, str]:
    """Return mutmut's word for each exit code of a mutant's tests."""
    named: Mapping[int | None, str] = import_module("mutmut.stats").status_by_exit_code
    return named


def mutate(modules: Sequence[str], children: int) -> int:
    """Run mutmut, and print a line of progress every few seconds. Returns its exit code."""
    patterns = [f"{module}.x*" for module in modules]
    command = [sys.executable, "-P", "scripts/run_mutmut.py", "run", "--max-children", str(children), *patterns]
    environment = os.environ | QUICKER
    WORK.mkdir(exist_ok=True)
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE) as running:
        shown = running.stdout.fileno() if running.stdout else -1
        said, next_line = b"", time.monotonic() + SECONDS_BETWEEN_LINES
        while part := os.read(shown, 65_536):
            said = (said + part)[-20_000:]
            if time.monotonic() >= next_line:
                next_line = time.monotonic() + SECONDS_BETWEEN_LINES
                print("  " + said.replace(b"\n", b"\r").split(b"\r")[-1].decode(errors="replace").strip(), flush=True)
        code = running.wait()
    if code:
        print(said.replace(b"\r", b"\n").decode(errors="replace"), file=sys.stderr)
    return code


def verdicts(modules: Sequence[str]) -> tuple[dict[str, tuple[int, int]], list[Place], int]:
    """Return mutants and killed mutants by module, the live ones, and how many no run has asked about."""
    statuses, diff_of = status_names(), import_module("mutmut.mutation.diff_apply").get_diff_for_mutant
    totals: dict[str, tuple[int, int]] = {}
    live: list[Place] = []
    unasked = 0
    for source, noted in notes():
        module, codes = module_of(source), noted["exit_code_by_key"]
        if not codes or (modules and module not in modules):
            continue
        killed = [name for name, code in codes.items() if statuses[code] in KILLED]
        totals[module] = (len(codes), len(killed))
        unasked += sum(code is None for code in codes.values())
        alive = sorted(codes.keys() - set(killed))
        live += [Place(module, function_of(name), change_of(diff_of(name, path=source))) for name in alive]
    return totals, live, unasked


def main() -> int:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description="mutation tests of the rules that serve and record")
    parser.add_argument("modules", nargs="*", help="dotted names; none: every module")
    parser.add_argument("--children", type=int, default=1, help="how many mutants are tested at once")
    parser.add_argument("--from-scratch", action="store_true", help="keep no verdict of an earlier run")
    parser.add_argument("--compare", action="store_true", help="run nothing")
    asked = parser.parse_args()
    os.chdir(REPOSITORY)
    if not asked.compare:
        forget(everything=asked.from_scratch)
        if code := mutate(asked.modules, asked.children):
            return code
    totals, live, unasked = verdicts(asked.modules)
    if unasked or not totals:
        print(f"{unasked} mutants are not tested yet: run `make mutants`" if unasked else "no mutants", file=sys.stderr)
        return 1
    known = read_equivalents(EQUIVALENT.read_text(encoding="utf-8"))
    found = compare(totals, live, known)
    print("\n".join(table(found.rows)))
    for title, places in (("lives without a reason", found.surviving), ("has no live mutant", found.outdated)):
        for place in places:
            print(f"\n{title}: {place}")
    if found.holds:
        before = rows_in(REPORT.read_text(encoding="utf-8")) if asked.modules else ()
        present = {module_of(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "sidecar").rglob("*.py")}
        rows = with_newer(before, found.rows, present)
        now = digests_of_mutated()
        before_it = read_measured(MEASURED.read_text(encoding="utf-8")) if asked.modules else now
        measured = {module: before_it.get(module, "") for module in now}
        measured |= {module: now[module] for module in asked.modules}
        MEASURED.write_text(write_measured(measured), encoding="utf-8")
        REPORT.write_text(report(rows, known, changed_since(measured, now)), encoding="utf-8")
        print(f"\nwrote {REPORT.relative_to(REPOSITORY)}")
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main())
