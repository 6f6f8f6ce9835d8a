"""Runs the parts of `make check` or `make test`, several at a time, and says at the end how long each took.

Style and protos come first, because they take a second and end the run if they fail. Then what many parts import is
compiled, if it is not yet: in a fresh clone each of eight processes would do that for itself, at the same time. Then
all others run together: the tests in front have the terminal, what the others said is shown when all have ended. Tests
of whole processes mostly wait; types and simulations take at a low priority what the tests leave idle.

Each worker of pytest imports every test that its part may run, for seconds of a core. So tests of whole processes and
tests of clients and plugins, which import LangChain, are parts of their own, and two parts of one worker share the
rest. Budgets go with the processes: they count the live objects of their worker, and the thousands of tests in another
part would take most of that time.

A few tests that failed are run once more when all parts have ended, alone on the machine. What passes then is reported
as unstable and does not fail the run: a defect that is always there fails twice.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parent.parent
MAKE: Final = (os.environ.get("MAKE", "make"), "--no-print-directory")
PYTEST: Final = (sys.executable, "-m", "pytest", "-q")
QUICK: Final = ("architecture", "requirements", "unit", "cli", "plugins")
NONE_CHOSEN: Final = 5
"""Exit code of pytest when no test was chosen."""
TESTS_FAILED: Final = 1
"""Exit code of pytest when all tests ran and some failed."""
INTERRUPTED: Final = 130
REPEATED: Final = 3
"""The largest number of tests that are run again: more failures than that are no accident of a busy machine."""
FAILED_TESTS: Final = "SIDECAR_FAILED_TESTS"
"""Names the file that a part writes the ids of its failed tests to (`tests/support/failed_tests.py`)."""


@dataclass(frozen=True, slots=True)
class Part:
    """One command.

    Attributes:
        name: as the table at the end shows it.
        command: program and arguments.
        chooses: whether it is given the arguments that choose tests, and may find none.
        nice: how far it steps back for the others, 0 to 19.
    """

    name: str
    command: tuple[str, ...]
    chooses: bool = False
    nice: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs: one after another, then one in front with the others beside it.

    Attributes:
        repeats: whether a few failed tests are run again.
    """

    first: Sequence[Part]
    front: Part
    beside: Sequence[Part]
    repeats: bool = False


IMPORTED: Final = ("sidecar", "proto/python", "clients/*/subagents_*", "plugins/*/sidecar_*", "examples", "scripts")
FOLDERS: Final = tuple(str(folder) for each in (*IMPORTED, "tests/support") for folder in sorted(ROOT.glob(each)))
FIRST: Final = (
    Part("lint", (*MAKE, "lint")),
    Part("protos", (*MAKE, "protos")),
    Part("bytecode", (sys.executable, "-m", "compileall", "-q", *FOLDERS)),
)
LOW: Final = 10
TYPES: Final = Part("types", (*MAKE, "types"), nice=LOW)
CHECK: Final = Part(
    "tests",
    (*PYTEST, "-n", "3", "-m", "not system", *(f"tests/{name}" for name in QUICK), "clients/python"),
    chooses=True,
)
PROCESSES: Final = Part(
    "processes",
    (*PYTEST, "-n", "3", "--durations=15", "tests/system", "tests/budgets"),
    chooses=True,
)
# One worker each, not none: packing keeps the durations of what workers ran. And not two: each would import all of it.
CALLS_AND_STORES: Final = Part(
    "calls, stores", (*PYTEST, "-n", "1", "tests/rpc", "tests/adapters", "tests/packages"), chooses=True
)
ELSEWHERE: Final = ("rpc", "adapters", "packages", "simulation", "system", "budgets")
# The folder has to be named: pytest ignores none of the paths that pyproject.toml lists.
TESTS: Final = Part(
    "tests",
    (*PYTEST, "-n", "1", "tests", *(f"--ignore=tests/{name}" for name in ELSEWHERE)),
    chooses=True,
)
PACKAGES: Final = Part("packages", (*PYTEST, "-n", "1", "clients", "plugins"), chooses=True)
# Not with the others: a process that has served gRPC must not be forked, and these need no worker of xdist.
SIMULATIONS: Final = Part("simulations", (*PYTEST, "--durations=5", "tests/simulation"), chooses=True, nice=LOW)
PLANS: Final[Mapping[str, Plan]] = {
    "check": Plan(FIRST, CHECK, (TYPES,)),
    "test": Plan(FIRST, PROCESSES, (CALLS_AND_STORES, TESTS, PACKAGES, TYPES, SIMULATIONS), repeats=True),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a part ended.

    Attributes:
        code: the exit code.
        seconds: how long it took.
        cpu: seconds of processors, its children's included.
        unstable: the tests that failed first and passed when they were run again.
    """

    part: Part
    code: int
    seconds: float
    cpu: float
    unstable: Sequence[str] = ()

    def line(self) -> str:
        """Return its line of the table."""
        passed = f"UNSTABLE: {', '.join(self.unstable)}" if self.unstable else ""
        words = {0: passed, NONE_CHOSEN: "no test chosen"} if self.part.chooses else {0: ""}
        return f"{self.part.name:14}{self.seconds:8.0f} s{self.cpu:8.0f} s  {words.get(self.code, 'FAILED')}".rstrip()


class Running:
    """The parts that run at this moment."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[Part, subprocess.Popen[bytes], float]] = {}

    def begin(
        self, part: Part, more: Sequence[str], aside: IO[bytes] | None = None, failed_tests: Path | None = None
    ) -> None:
        """Start a part; what is beside writes into a file, and the ids of failed tests go into another."""
        command = ["nice", "-n", str(part.nice), *part.command, *(more if part.chooses else ())]
        environment = {**os.environ, FAILED_TESTS: str(failed_tests or "")}
        process = subprocess.Popen(command, cwd=ROOT, stdout=aside, stderr=aside, env=environment)
        self._begun[process.pid] = part, process, time.monotonic()

    def next_end(self) -> Ended:
        """Wait until one of them has ended."""
        pid, status, used = os.wait4(-1, 0)
        part, process, begun = self._begun.pop(pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(part, process.returncode, time.monotonic() - begun, used.ru_utime + used.ru_stime)

    def wait(self) -> None:
        """Wait for the end of all that still runs."""
        while self._begun:
            self.next_end()


def run(plan: Plan, more: Sequence[str], running: Running) -> list[Ended]:
    """Run a plan; end early where a part that comes first fails."""
    ended: list[Ended] = []
    for part in plan.first:
        say(f"== {part.name}")
        running.begin(part, more)
        ended.append(running.next_end())
        if ended[-1].code:
            return ended
    with tempfile.TemporaryDirectory() as folder:
        files = {part: (Path(folder) / part.name).open("w+b") for part in plan.beside}
        failed = {part: Path(folder) / f"failed-{part.name}" for part in (plan.front, *plan.beside)}
        for part, aside in files.items():
            running.begin(part, more, aside, failed[part])
        say(f"== {plan.front.name}; beside: " + ", ".join(part.name for part in plan.beside))
        running.begin(plan.front, more, failed_tests=failed[plan.front])
        ended += (running.next_end() for _ in range(1 + len(files)))
        for part, aside in files.items():
            aside.seek(0)
            say(f"== {part.name}", aside.read().decode(errors="replace").rstrip())
            aside.close()
        tests = {part: file.read_text("utf-8").split("\n") for part, file in failed.items() if file.exists()}
    return repeated(ended, tests, running) if plan.repeats else ended


def repeated(ended: Sequence[Ended], failed: Mapping[Part, Sequence[str]], running: Running) -> list[Ended]:
    """Run failed tests again if they are few and nothing else failed; a part whose tests all pass then has passed."""
    tests = [test for each in failed.values() for test in each]
    unexplained = [each for each in ended if each.code and not (each.code == TESTS_FAILED and failed.get(each.part))]
    if unexplained or not 0 < len(tests) <= REPEATED:
        return list(ended)
    say("== once more, alone: " + ", ".join(tests))
    running.begin(Part("once more", (*PYTEST, *tests)), ())
    if running.next_end().code:
        return list(ended)
    return [replace(each, code=0, unstable=failed[each.part]) if each.code else each for each in ended]


def code_of(ended: Sequence[Ended]) -> int:
    """Return the run's exit code: that of a part that failed, or that no test was chosen in any part."""
    codes = [each.code for each in ended if not (each.part.chooses and each.code == NONE_CHOSEN)]
    none_chosen = all(each.code == NONE_CHOSEN for each in ended if each.part.chooses)
    return next((abs(code) for code in codes if code), NONE_CHOSEN if none_chosen else 0)


def say(*lines: str) -> None:
    """Tell at once, between what the parts say."""
    print(*lines, sep="\n", flush=True)


def main() -> int:
    """Run the plan that is asked for; further arguments choose tests."""
    parser = argparse.ArgumentParser(prog="python -m scripts.run_parts", description=__doc__)
    parser.add_argument("plan", choices=PLANS)
    chosen, more = parser.parse_known_args()
    begun, running = time.monotonic(), Running()
    try:
        ended = run(PLANS[chosen.plan], more, running)
    except KeyboardInterrupt:
        running.wait()  # the terminal has interrupted them, too
        return INTERRUPTED
    code = code_of(ended)
    say("== time           together   processors", *(each.line() for each in ended))
    say(f"{'all':14}{time.monotonic() - begun:8.0f} s{sum(each.cpu for each in ended):8.0f} s")
    if code == NONE_CHOSEN:
        say("no test was chosen")
    return code


if __name__ == "__main__":
    sys.exit(main())
