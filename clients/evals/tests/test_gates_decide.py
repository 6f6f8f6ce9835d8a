"""From a description to a gate: two git revisions compared, their results recorded, and a real sidecar that decides."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from subagents.lifecycle.v1 import reading_pb2
from subagents_evals.command import FELL_SHORT, main
from subagents_evals.measures.manifest import GateStep, add_results, results_of
from subagents_evals.measures.results import Run, read_run
from tests.support.operating import SETTINGS, SUBAGENT, Operator, prepared
from tests.support.requirement import requirement
from tests.support.sidecar_process import place, serving

pytestmark = pytest.mark.system

BEGINS: Final = "      Knows the user's points: the balance"
ENDS: Final = "    role: native\n"
WORSE: Final = "      A friendly assistant of the programme. Use it when the user wants to hear about the programme.\n"
DECLARED: Final = ("    ownership: [points]\n", "    ownership: [points, stamps]\n")
STAMPS: Final = """
version: 1
cases:
  - {id: rewards-stamps, message: "How many points do my stamps bring?", calls: [rewards], covers: [stamps]}
"""
MANIFEST: Final = """
version: 1
gates:
  pre_merge: {thresholds: {routing_accuracy: {at_least: 0.9}}}
  pre_ramp: {thresholds: {routing_accuracy: {at_least: 0.9}, switch_accuracy: {at_least: 0.9}}}
  pre_full: {thresholds: {routing_accuracy: {at_least: 0.9}, failures_admitted: {at_least: 0.9}}}
"""
GATED: Final = """
[plugins]
enabled = ["sidecar-gates-manifest"]

[policy.default]
gates = "manifest"

[gates.manifest]
plugin = "manifest"
path = "{folder}/manifest.yaml"
accept_offline = {accept}
"""


@dataclass(frozen=True, slots=True)
class Revisions:
    """What `sidecar eval compare` found in a repository with a good and a worse description.

    Attributes:
        good, worse: configurations.
        before, after: runs over them.
        code: the exit code.
    """

    good: Path
    worse: Path
    before: Run
    after: Run
    code: int


def git(folder: Path, *arguments: str) -> None:
    """Run git with an identity made for the test."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def made_worse(config: Path) -> None:
    """Take the words out of a description that requests could be recognised by; declare something new, with a case."""
    file = config / "agent_config.yaml"
    text = file.read_text("utf-8")
    before, begins, rest = text.partition(BEGINS)
    assert begins
    file.write_text((before + WORSE + ENDS + rest.partition(ENDS)[2]).replace(*DECLARED), "utf-8")
    (config / "evals" / "stamps.yaml").write_text(STAMPS, "utf-8")


@pytest.fixture(scope="module")
def revisions() -> Iterator[Revisions]:
    """The example configuration, then a commit with a description that was made worse on purpose; compared."""
    with place() as folder, tempfile.TemporaryDirectory(prefix="eval-") as kept:
        prepared(folder)
        config = folder / "config"
        git(config, "init", "--quiet")
        git(config, "add", ".")
        git(config, "commit", "--quiet", "-m", "as it was")
        good = Path(shutil.copytree(config, Path(kept) / "good"))
        made_worse(config)
        git(config, "commit", "--quiet", "-a", "-m", "shorter")
        report = folder / "report"
        code = main(["compare", "HEAD~1..HEAD", str(config), "--slot", SUBAGENT, "--report", str(report)])
        yield Revisions(good, config, read_run(report / "before.json"), read_run(report / "after.json"), code)


@requirement("PC1-T-11", "PC2-T-15")
def test_a_description_made_worse_on_purpose_is_caught_by_the_comparison(revisions: Revisions) -> None:
    """The same cases with both, a new one too: its sub-agent got worse beyond chance, and only its digest changed."""
    before, after = ({one.slot: one.digest for one in run.definitions} for run in (revisions.before, revisions.after))

    assert revisions.code == FELL_SHORT
    assert "rewards-stamps" in {one.case_id for one in revisions.before.trials}
    assert (
        revisions.after.metrics.by_slot[SUBAGENT].routing.hits
        < revisions.before.metrics.by_slot[SUBAGENT].routing.hits - 10
    )
    assert [slot for slot in before if before[slot] != after[slot]] == [SUBAGENT]


class Desk:
    """An operator at a sidecar whose gates are decided by a manifest."""

    def __init__(self, folder: Path, operator: Operator) -> None:
        self.folder = folder
        self.operator = operator

    def record(self, run: Run, *step: Any) -> None:
        """Write a result of the sub-agent, as `sidecar eval run --record` does."""
        add_results(self.folder / "manifest.yaml", results_of(run, GateStep(*step), [SUBAGENT], ""))

    async def promote(self) -> str:
        """Try to promote; return the reason of a refusal, empty if it was done."""
        return await self._tried("Transition", target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE)

    async def ramp(self, basis_points: int) -> str:
        """Try to raise the ramp."""
        return await self._tried("SetRamp", ramp_basis_points=basis_points)

    async def _tried(self, method: str, **fields: Any) -> str:
        try:
            await self.operator.step(method, **fields)
        except grpc.aio.AioRpcError as refused:
            return str(refused.details())
        return ""


async def decided(config: Path, *steps: Any, accept: bool = True) -> Sequence[str]:
    """Let a sidecar serve a configuration, and take steps: recordings, promotions, ramps; return what was said."""
    said = []
    with place() as folder:
        shutil.rmtree(folder / "config")
        shutil.copytree(config, folder / "config", ignore=shutil.ignore_patterns(".git"))
        signer = prepared(folder)
        (folder / "manifest.yaml").write_text(MANIFEST, "utf-8")
        more = (SETTINGS + GATED).format(folder=folder, accept=str(accept).lower())
        async with asyncio.timeout(60), serving(folder, more=more):
            desk = Desk(folder, Operator(folder=folder, signer=signer))
            await desk.operator.tested()
            for name, *arguments in steps:
                done = getattr(desk, name)(*arguments)
                if done is not None:
                    said.append(await done)
    return said


@requirement("PC2-T-19", "PC2-NFR-3a", "PC2-D-43")
async def test_a_description_made_worse_on_purpose_is_stopped_before_it_reaches_users(revisions: Revisions) -> None:
    """`pre_merge` fails by the recorded figure; the other revision's good result does not help it."""
    run, good = revisions.after, revisions.before

    said = await decided(
        revisions.worse, ("record", good, "pre_merge"), ("promote",), ("record", run, "pre_merge"), ("promote",)
    )

    assert "results are recorded for another content only" in said[0]
    assert "routing_accuracy is" in said[1]


@requirement("PC2-T-19", "PC2-NFR-3a")
async def test_each_step_to_all_users_is_decided_by_a_result_of_exactly_that_step(revisions: Revisions) -> None:
    """Promoted, to 5 %, to 100 %: held without a result, taken with one."""
    run = revisions.before

    said = await decided(
        revisions.good,
        ("promote",),
        ("record", run, "pre_merge"),
        ("promote",),
        ("ramp", 500),
        ("record", run, "pre_ramp", 0, 5),
        ("ramp", 500),
        ("ramp", 10_000),
        ("record", run, "pre_full", 5, 100),
        ("ramp", 10_000),
    )

    assert ["" if not one else "held" for one in said] == ["held", "", "held", "", "held", ""]


@requirement("PC2-NFR-3a")
async def test_results_of_the_offline_router_promote_nothing_outside_of_a_demo(revisions: Revisions) -> None:
    """The same result that a demo accepts."""
    (said,) = await decided(revisions.good, ("record", revisions.before, "pre_merge"), ("promote",), accept=False)

    assert "offline only" in said
