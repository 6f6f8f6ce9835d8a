"""What the demo's gates decide by: results of `sidecar eval`, recorded in `evaluation_manifest.yaml` beside this file.

`python -m examples.demo.evaluations` plays all cases and records the results again, which takes about a minute. It is
needed whenever the example definitions, the cases, or the offline router change; a test says so.
"""

import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from examples.demo.definitions import (
    REPLACEMENT,
    at_first,
    with_replacement,
    with_shorter_description,
    with_travel_answers,
)
from examples.demo.processes import ROOT
from examples.demo.typed_commands import typed

MANIFEST: Final = Path(__file__).with_name("evaluation_manifest.yaml")
CASES: Final = Path(__file__).with_name("evals")
RESULTS: Final = "results:"
RECORDED: Final = {0, 1}
"""Exit codes with which `sidecar eval run` has recorded a result: all thresholds met, or not."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One result that the demo needs.

    Attributes:
        slot: whose cases are played.
        gate: that will ask for the result.
        before, after: the ramp of the step, in percent.
        shorter: measure the description of `shop-dates` that hurts routing.
    """

    slot: str
    gate: str
    before: int = 0
    after: int = 0
    shorter: bool = False

    @property
    def definition_id(self) -> str:
        """What is measured."""
        return REPLACEMENT if self.slot == "shop" else self.slot

    def command(self, config: Path) -> Sequence[str]:
        """Return the arguments of `sidecar` that play the cases and record the result beside the definitions."""
        candidate = ["--candidate", REPLACEMENT] if self.definition_id == REPLACEMENT else []
        step = ["--from", str(self.before), "--to", str(self.after)] if self.after else []
        return ["eval", "run", str(config), "--slot", self.slot, *candidate, "--record", self.gate, *step]


PROMOTION: Final = Evaluation("shop", "pre_merge")
WORSE: Final = Evaluation("shop", "pre_ramp", 25, 50, shorter=True)
EVALUATIONS: Final = (
    PROMOTION,
    Evaluation("shop", "pre_ramp", 0, 25),
    WORSE,
    Evaluation("shop", "pre_full", 25, 100),
    Evaluation("travel", "pre_merge"),
    Evaluation("travel", "pre_ramp", 0, 50),
)
"""One for each question that the rollout asks."""


def configure(config: Path) -> None:
    """Write the configuration with which the demo begins: definitions, prompts, cases, and the manifest."""
    shutil.copytree(ROOT / "examples" / "config", config, dirs_exist_ok=True)
    shutil.copytree(CASES, config / "evals", dirs_exist_ok=True)
    shutil.copyfile(MANIFEST, config / MANIFEST.name)
    suite, definitions = config / "evals" / "suite.yaml", config / "agent_config.yaml"
    suite.write_text(with_travel_answers(suite.read_text(encoding="utf-8")), encoding="utf-8")
    definitions.write_text(at_first(definitions.read_text(encoding="utf-8")), encoding="utf-8")


def bring_replacement(config: Path, *, shorter: bool = False) -> None:
    """Put `shop-dates` into the configuration, as a merge would; `shorter`: described so that routing suffers."""
    example = (ROOT / "examples" / "config" / "agent_config.yaml").read_text(encoding="utf-8")
    both = with_replacement(at_first(example))
    definitions = config / "agent_config.yaml"
    beside = definitions.with_suffix(".new")
    beside.write_text(with_shorter_description(both) if shorter else both, encoding="utf-8")
    beside.replace(definitions)


def measured_digest(manifest: Path, one: Evaluation) -> str:
    """Return the digest of the content that a result was recorded for; empty without such a result."""
    content = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    found = [
        result["digest"]
        for result in content["results"]
        if (result["sub_agent"], result["gate"], result["to_percent"]) == (one.definition_id, one.gate, one.after)
    ]
    return str(found[-1]) if found else ""


def decisions_in(log: str) -> Iterator[Mapping[str, Any]]:
    """Yield what a gate service wrote of each question that it answered: the `question` and the `answer`."""
    for line in log.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, Mapping) and "question" in found:
                yield found


async def record(manifest: Path) -> None:
    """Play the cases for each of `EVALUATIONS`, and write the manifest's results anew.

    Raises:
        SystemExit: a run has measured nothing; the manifest is as it was.
    """
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        config = Path(name) / "config"
        configure(config)
        copy = config / MANIFEST.name
        head, found, _ = copy.read_text(encoding="utf-8").partition(RESULTS)
        copy.write_text(head + found + " []\n", encoding="utf-8")
        for one in EVALUATIONS:
            bring_replacement(config, shorter=one.shorter)
            said = await typed(one.command(config))
            if said.code not in RECORDED:
                raise SystemExit("\n".join(said.lines))
            print(f"{one.slot}, {one.gate}: {said.lines[-1]}", flush=True)
        shutil.copyfile(copy, manifest)


def measured(lines: Sequence[str], slot: str) -> Sequence[str]:
    """Return an excerpt of the output of `sidecar eval run --record`: a sub-agent's row, missed thresholds, the end."""
    rows = [re.split(r"\s*[│┃]\s*", line.strip())[1:-1] for line in lines if line.strip().startswith(("│", "┃"))]
    names = next(iter(rows), [])
    of_slot = [row for row in rows if row[:1] == [slot]]
    told = [", ".join(f"{name} {value}" for name, value in zip(names[1:5], row[1:5], strict=True)) for row in of_slot]
    return [
        *(f"{slot}: {one}" for one in told),
        *(line for line in lines if line.startswith("threshold not met")),
        *lines[-2:],
    ]


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1]) if len(sys.argv) > 1 else MANIFEST))
