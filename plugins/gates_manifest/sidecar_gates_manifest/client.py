"""Reads the manifest at each question: it is small and rarely read, and a result may just have been recorded."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable
from sidecar_gates_manifest.manifest import MOST_BYTES, Manifest, ManifestProblem, manifest_in
from sidecar_gates_manifest.verdicts import answer_to


def utc_now() -> datetime:
    """Return the wall clock's time."""
    return datetime.now(UTC)


class ManifestGates:
    """The client.

    Args:
        path: of the manifest.
        now: the wall clock; with its offset.
        accept_offline: whether results of a stand-in for a model count; only for a demo.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = utc_now, *, accept_offline: bool = False) -> None:
        self._path = path
        self._now = now
        self._accept_offline = accept_offline

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Return what the manifest says now. Raises `GateUnavailable` if it is not there or cannot be used."""
        return await asyncio.to_thread(self.answer, question)

    def answer(self, question: GateQuestion) -> GateAnswer:
        """Return the same, for callers that may block."""
        return answer_to(self._read(), question, self._now(), accept_offline=self._accept_offline)

    async def close(self) -> None:
        """Hold nothing open."""

    def _read(self) -> Manifest:
        try:
            if not self._path.is_file():
                raise GateUnavailable(f"{self._path} is not there, or is no file")
            with self._path.open("rb") as opened:
                return manifest_in(opened.read(MOST_BYTES + 1))
        except OSError as error:
            raise GateUnavailable(f"{self._path} cannot be read ({type(error).__name__})") from None
        except ManifestProblem as problem:
            raise GateUnavailable(f"{self._path}: {problem}") from None
