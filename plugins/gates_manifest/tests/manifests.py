"""Manifests written by tests."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from typing_extensions import override

from sidecar.policy.lifecycle import GateQuestion, Verdict
from sidecar_conformance.gate_bench import GateClientBench, GateFault
from sidecar_gates_manifest import ManifestGates

NOW: Final = datetime.now(UTC).replace(microsecond=0)
"""The suite compares verdicts with the wall clock."""


def result_of(question: GateQuestion, success: float = 0.95, **changes: Any) -> dict[str, Any]:
    """Return a result about exactly a question, recorded an hour ago."""
    return {
        "sub_agent": question.definition_id,
        "gate": question.gate,
        "digest": question.digest,
        "commit": question.commit,
        "from_percent": question.from_ramp / 100,
        "to_percent": question.to_ramp / 100,
        "recorded_at": (NOW - timedelta(hours=1)).isoformat(),
        "metrics": {"task_success": success},
        **changes,
    }


def manifest_with(*results: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a manifest with one threshold for each gate."""
    gates = {gate: {"thresholds": {"task_success": {"at_least": 0.9}}} for gate in ("pre_ramp", "pre_full")}
    return {"version": 1, "gates": gates, "results": list(results), **changes}


class ManifestBench(GateClientBench):
    """A manifest in a file; results come and go."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "evaluation_manifest.yaml"
        self._decided: dict[str, tuple[GateQuestion, Verdict]] = {}

    @override
    def make(self) -> ManifestGates:
        return ManifestGates(self.path, lambda: NOW)

    @override
    async def decide(self, question: GateQuestion, verdict: Verdict) -> None:
        self._decided[question.gate] = (question, verdict)
        await self.misbehave(GateFault.NONE)

    @override
    async def misbehave(self, fault: GateFault) -> None:
        self.path.unlink(missing_ok=True)
        if fault is GateFault.AWAY:
            return
        changes: dict[str, Any] = {
            GateFault.OTHER_DIGEST: {"digest": "sha256:" + "0" * 64},
            GateFault.OTHER_STEP: {"to_percent": 24.99},
            GateFault.EXPIRED: {"recorded_at": (NOW - timedelta(days=90)).isoformat()},
            GateFault.UNKNOWN_VERDICT: {"verdict": "maybe"},
        }.get(fault, {})
        results = [{**result, **changes} for each in self._decided.values() if (result := _recorded(*each))]
        text = "version: 1\ngates: [" if fault is GateFault.GARBAGE else yaml.safe_dump(manifest_with(*results))
        self.path.write_text(text, "utf-8")


def _recorded(question: GateQuestion, verdict: Verdict) -> dict[str, Any] | None:
    """Return the result from which a verdict follows; None: none does."""
    by_verdict: dict[Verdict, dict[str, Any] | None] = {
        Verdict.PASS: result_of(question, 0.95),
        Verdict.FAIL: result_of(question, 0.5),
        Verdict.INCONCLUSIVE: result_of(question, metrics={"another": 1.0}),
        Verdict.PENDING: None,
    }
    return by_verdict[verdict]
