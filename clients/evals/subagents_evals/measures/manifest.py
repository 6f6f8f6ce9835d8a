"""Adds results to `evaluation_manifest.yaml`, which the gate client `manifest` reads. Keeps comments and order."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from subagents_evals.measures.results import Run, gate_metrics

ALL: Final = 100
"""Percent."""
GATES: Final = ("pre_merge", "pre_ramp", "pre_full")


class ManifestUnchanged(ValueError):
    """The results could not be added, and the file is unchanged. The message has the text to add by hand."""


@dataclass(frozen=True, slots=True)
class GateStep:
    """The step that a result is for: the gate, and the ramp before and after in percent (0 and 0 for `pre_merge`)."""

    gate: str
    from_percent: float = 0.0
    to_percent: float = 0.0

    def __post_init__(self) -> None:
        """Raise `ValueError` for a step that no gate checks."""
        if self.gate not in GATES:
            raise ValueError(f"no gate {self.gate!r}; one of {', '.join(GATES)}")
        if self.gate != "pre_merge" and not 0 <= self.from_percent < self.to_percent <= ALL:
            raise ValueError(f"{self.gate} is asked about a raise: give --from and --to, e.g. --from 0 --to 5")
        if self.gate == "pre_merge" and (self.from_percent or self.to_percent):
            raise ValueError("pre_merge is asked before any ramp; leave --from and --to out")


def results_of(run: Run, step: GateStep, slots: Sequence[str], report: str) -> Sequence[dict[str, Any]]:
    """Return one result for each measured definition, in the format of the gate client `manifest`.

    Args:
        run: the run.
        step: the step that the results are for.
        slots: slots to return; empty: all.
        report: place of the report, for people; empty: none.

    Raises:
        ManifestUnchanged: the run is not whole; it would count against a definition where it was a model that failed.
    """
    failed = [f"{one.case_id}: {one.observed.problem}" for one in run.trials if one.observed.problem]
    if failed:
        raise ManifestUnchanged(f"not recorded: {len(failed)} of {len(run.trials)} turns failed; {failed[0]}")
    if run.gaps:
        raise ManifestUnchanged("not recorded; not covered:\n" + "\n".join(run.gaps))
    return [
        {
            "sub_agent": one.id,
            "gate": step.gate,
            "digest": one.digest,
            "commit": one.commit,
            "from_percent": step.from_percent,
            "to_percent": step.to_percent,
            "recorded_at": run.recorded_at.isoformat(),
            "offline": run.offline,
            "metrics": dict(gate_metrics(run, one.slot)),
            "evidence": {
                "model": run.model,
                "run": run.run_id,
                "surface": run.surface_digest,
                **({"report": report} if report else {}),
            },
        }
        for one in run.definitions
        if not slots or one.slot in slots
    ]


def add_results(manifest: Path, results: Sequence[dict[str, Any]]) -> None:
    """Add results at the end of the manifest's `results`. Concurrent calls wait for each other.

    Raises:
        ManifestUnchanged: the file is not as expected; it was not changed.
    """
    with _locked(manifest):
        before = manifest.read_text("utf-8")
        try:
            after = _with(before, results)
            old, new = yaml.safe_load(before) or {}, yaml.safe_load(after)
            fits = new == {**old, "results": [*(old.get("results") or ()), *_as_read(results)]}
        except (yaml.YAMLError, TypeError, AttributeError):
            fits = False
        if not fits:
            raise ManifestUnchanged(
                f"{manifest}: results cannot be added here; add by hand:\n{_text_of(results, '  ')}"
            )
        _replace(manifest, after)


def _with(text: str, results: Sequence[dict[str, Any]]) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    entries = root.value if isinstance(root, yaml.MappingNode) else []
    found = next(((key, value) for key, value in entries if key.value == "results"), None)
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if found is None:
        return "".join([*lines, "\nresults:\n", _text_of(results, "  ")])
    key, value = found
    if isinstance(value, yaml.SequenceNode) and value.value and not value.flow_style:
        last = value.value[-1].end_mark
        place = last.line + (1 if last.column else 0)
        while place > 0 and not lines[place - 1].strip():
            place -= 1
        return "".join([*lines[:place], _text_of(results, " " * value.start_mark.column), *lines[place:]])
    if not value.value:  # `results:` or `results: []`
        return "".join(
            [*lines[: key.start_mark.line], "results:\n", _text_of(results, "  "), *lines[value.end_mark.line + 1 :]]
        )
    return text


def _text_of(results: Sequence[dict[str, Any]], indent: str) -> str:
    text = yaml.safe_dump(list(results), sort_keys=False, allow_unicode=True, width=4096)
    return "".join(f"{indent}{line}\n" for line in text.splitlines())


def _as_read(results: Sequence[dict[str, Any]]) -> Any:
    return yaml.safe_load(_text_of(results, ""))


@contextmanager
def _locked(manifest: Path) -> Iterator[None]:
    if not manifest.is_file():
        raise ManifestUnchanged(f"{manifest}: no such file; docs/gates.md shows one")
    folder = os.open(manifest.parent, os.O_RDONLY)  # the lock is on the folder, because the file is replaced
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace(file: Path, text: str) -> None:
    """Replace the content of a file atomically."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        os.chmod(name, file.stat().st_mode & 0o777)
        os.replace(name, file)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
