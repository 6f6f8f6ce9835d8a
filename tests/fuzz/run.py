"""Fuzz at length: `python -m tests.fuzz.run --seconds 60`, or one target: `--target settings`.

With atheris (`make fuzz` installs it beside the environment of the tests) the search is guided by coverage, one process
for each target; without it inputs are mutated blindly. What breaks a promise is written to
`tests/corpus/fuzz/<target>/`, where the tests replay it, and ends the run with 1. With SIDECAR_FUZZ_KEEP=1 the smallest
inputs that reach all the code that was reached go to the corpus as well.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.fuzz import documents, record, tokens, wire
from tests.fuzz.mutating import LONGEST, inputs
from tests.fuzz.target import Target

CORPUS: Final = Path(__file__).parent.parent / "corpus" / "fuzz"
TARGETS: Final = {each.name: each for part in (documents, tokens, record, wire) for each in part.targets()}
GUIDED: Final = importlib.util.find_spec("atheris") is not None
DONE: Final = re.compile(r"Done (\d+) runs")
COVERED: Final = re.compile(r"cov: (\d+)")
NAME_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What one target came to.

    Attributes:
        covered: edges of the code that were reached; None without coverage.
        found: the input that broke a promise, and how.
    """

    target: str
    inputs: int
    covered: int | None
    found: tuple[bytes, str] | None

    def line(self) -> str:
        """Return its row."""
        covered = "-" if self.covered is None else str(self.covered)
        return f"| {self.target} | {self.inputs:,} | {covered} | {'**broken**' if self.found else 'nothing'} |"


def corpus_of(target: Target) -> list[bytes]:
    """Return the inputs that are kept for a target."""
    return [file.read_bytes() for file in sorted((CORPUS / target.name).glob("*")) if file.is_file()]


def name_of(data: bytes) -> str:
    """Return the file name of an input."""
    return sha256(data).hexdigest()[:NAME_LENGTH]


def mutated(target: Target, seconds: float, most: int = sys.maxsize, seed: int = 0) -> Fuzzed:
    """Run a target on its corpus and on mutations of it, for a time or a number of inputs."""
    until, corpus = time.monotonic() + seconds, corpus_of(target)
    fresh = inputs(target, corpus, seed)
    for number in count():
        known = (*target.seeds, *corpus)
        data = known[number] if number < len(known) else next(fresh)
        try:
            target.run(data)
        except BaseException:  # noqa: BLE001  whatever it is, a parser must not raise it
            return Fuzzed(target.name, number + 1, None, (data, traceback.format_exc()))
        if number + 1 >= most or time.monotonic() >= until:
            return Fuzzed(target.name, number + 1, None, None)
    raise AssertionError


def guided(target: Target, seconds: float) -> Fuzzed:
    """Run a target with coverage in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        words = "".join(f'"{_escaped(word)}"\n' for word in target.words)
        (work / "words").write_text(words, "ascii")
        (work / "corpus").mkdir()
        for data in (*target.seeds, *corpus_of(target)):
            (work / "corpus" / name_of(data)).write_bytes(data)
        command = [sys.executable, "-m", "tests.fuzz.guided", target.name, str(work / "corpus")]
        command += [f"-max_total_time={max(1, int(seconds))}", f"-max_len={LONGEST}", f"-dict={work / 'words'}"]
        command += [f"-artifact_prefix={work}/", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=0"]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environment)
        runs, covered = DONE.findall(done.stderr), COVERED.findall(done.stderr)
        broken = [each for each in work.glob("*-*") if each.is_file()]
        found = (broken[0].read_bytes(), done.stdout[-2000:] + done.stderr[-4000:]) if done.returncode else None
        if done.returncode and not broken:
            raise RuntimeError(f"{target.name} did not run:\n{done.stderr[-4000:]}")
        if not found:
            _keep(target, work / "corpus")
        number = int(runs[-1]) if runs else 0
        return Fuzzed(target.name, number, int(covered[-1]) if covered else None, found)


def _keep(target: Target, found: Path) -> None:
    """Add the smallest inputs that reach what the corpus does not reach yet, if that is asked for."""
    if "SIDECAR_FUZZ_KEEP" not in os.environ:
        return
    folder = CORPUS / target.name
    reached = {step for data in (*target.seeds, *corpus_of(target)) for step in _steps(target, data)}
    fresh = sorted((file.read_bytes() for file in found.iterdir()), key=len)
    for data in fresh:
        steps = _steps(target, data)
        if not steps <= reached:
            reached |= steps
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name_of(data)).write_bytes(data)


def _steps(target: Target, data: bytes) -> set[tuple[str, int, int]]:
    """Return each pair of lines of the sidecar that follow each other while a target runs."""
    steps: set[tuple[str, int, int]] = set()

    def enter(frame: FrameType, event: str, _: object) -> Any:
        file, last = frame.f_code.co_filename, 0
        if f"{os.sep}sidecar{os.sep}" not in file:
            return None

        def line(at: FrameType, event: str, _: object) -> Any:
            nonlocal last
            if event == "line":
                steps.add((file, last, at.f_lineno))
                last = at.f_lineno
            return line

        return line

    sys.settrace(enter)
    try:
        target.run(data)
    finally:
        sys.settrace(None)
    return steps


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run the targets, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="of blind mutations")
    chosen = parser.parse_args(arguments)
    _say("| target | inputs | edges | found |\n|---|---|---|---|")
    broken = 0
    for name in chosen.target or TARGETS:
        target = TARGETS[name]
        fuzzed = guided(target, chosen.seconds) if GUIDED else mutated(target, chosen.seconds, seed=chosen.seed)
        _say(fuzzed.line())
        if fuzzed.found:
            broken += 1
            data, how = fuzzed.found
            kept = CORPUS / name / name_of(data)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)
            _say(f"{kept}: {data[:200]!r}\n{how}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
