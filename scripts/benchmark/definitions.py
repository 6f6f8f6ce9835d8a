"""The configuration that is measured: eight sub-agents that answer at once, eight that sleep first."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.benchmark.processes import REPOSITORY

MOST_CHILDREN: Final = 8
INSTANT: Final = "instant"
SLEEPING: Final = "sleeping"
RUNNER: Final = "bench"
SLEEP_SECONDS: Final = 0.020
ANSWER: Final = "word " * 205
PROMPTS: Final = Path("prompts")

HEAD: Final = """\
models:
  - id: small
    provider_model: small-1
    context_window: 272000
agents:
"""
ORCHESTRATOR: Final = """\
  - id: {kind}
    description: Asks {kind} sub-agents.
    role: orchestrator
    model: small
    vertical: platform
    prompt_blocks: [format-streaming]
    sub_agents: [{slots}]
"""
SUB_AGENT: Final = """\
  - id: {slot}
    description: Answers with a kilobyte of text, for the bench.
    role: native
    model: small
    prompt_blocks: [format-streaming, safety-financial]
    runner: {{kind: {runner}, target: {kind}}}
    limits: {{attempt_timeout: 20s}}
"""


SERVED: Final = "served"
"""Slots that row 13 takes away, one by one."""


def slots(kind: str) -> tuple[str, ...]:
    """Return the slots of one kind, in order."""
    return tuple(f"{kind}-{number}" for number in range(1, MOST_CHILDREN + 1))


def write_definitions(folder: Path) -> None:
    """Write the configuration into `folder`, with the example's prompt blocks, so that prompts have a real size."""
    parts = []
    for kind in (INSTANT, SLEEPING):
        parts.append(ORCHESTRATOR.format(kind=kind, slots=", ".join(slots(kind))))
        parts.extend(SUB_AGENT.format(slot=slot, kind=kind, runner=RUNNER) for slot in slots(kind))
    _write(folder, parts)


def write_served(folder: Path, count: int) -> None:
    """Write a configuration of `count` slots, `served-0` and so on, each under an orchestrator of its own."""
    parts = []
    for number in range(count):
        slot = f"{SERVED}-{number}"
        parts.append(ORCHESTRATOR.format(kind=orchestrator_of(slot), slots=slot))
        parts.append(SUB_AGENT.format(slot=slot, kind=INSTANT, runner=RUNNER))
    _write(folder, parts)


def write_groups(folder: Path, groups: int, sub_agents: int) -> None:
    """Write orchestrators, `instant-0` and so on, each with so many sub-agents of its own."""
    parts = []
    for group in range(groups):
        kind = f"{INSTANT}-{group}"
        own = [f"{kind}-{number}" for number in range(1, sub_agents + 1)]
        parts.append(ORCHESTRATOR.format(kind=kind, slots=", ".join(own)))
        parts.extend(SUB_AGENT.format(slot=slot, kind=INSTANT, runner=RUNNER) for slot in own)
    _write(folder, parts)


def orchestrator_of(slot: str) -> str:
    """Return the orchestrator that has only this slot."""
    return f"all-{slot}"


def _write(folder: Path, parts: Sequence[str]) -> None:
    shutil.copytree(REPOSITORY / "examples" / "config" / PROMPTS, folder / PROMPTS)
    (folder / "agent_config.yaml").write_text("".join([HEAD, *parts]), encoding="utf-8")
