"""Logs a run to an MLflow tracking server, Needs `subagents-evals[mlflow]`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from subagents_evals.measures.results import Run, gate_metrics, write_run

EXPERIMENT: Final = "subagents routing"


class NoTracking(RuntimeError):
    """The run was measured but could not be logged; the message says why."""


class Tracking(Protocol):
    """The functions of the module `mlflow` that are used."""

    def set_tracking_uri(self, uri: str) -> Any:
        """Choose the server."""

    def set_experiment(self, experiment_name: str) -> Any:
        """Choose the experiment; it is created if it does not exist."""

    def start_run(self, *, run_name: str, tags: dict[str, str]) -> Any:
        """Begin a run; it ends with the block."""

    def log_params(self, params: dict[str, Any]) -> Any:
        """Log parameters of the run."""

    def log_metrics(self, metrics: dict[str, float]) -> Any:
        """Log metrics."""

    def log_artifact(self, local_path: str) -> Any:
        """Log a file."""


def log_run(run: Run, uri: str, page: str, tracking: Tracking | None = None) -> None:
    """Log one run: metrics by sub-agent, the digest of each definition as a tag, report and JSON as artifacts.

    Args:
        run: what was measured.
        uri: of the tracking server.
        page: the report.
        tracking: the module `mlflow`; None imports it.

    Raises:
        NoTracking: the client is not installed, or the server did not take the run.
    """
    mlflow = tracking or _mlflow()
    try:
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment(EXPERIMENT)
        with mlflow.start_run(run_name=run.run_id, tags=dict(_tags(run))):
            mlflow.log_params({"configuration": run.configuration, "repetitions": run.repetitions})
            mlflow.log_metrics(dict(_metrics(run)))
            with tempfile.TemporaryDirectory(prefix="eval-mlflow-") as name:
                (Path(name) / "report.html").write_text(page, "utf-8")
                write_run(run, Path(name) / "run.json")
                mlflow.log_artifact(f"{name}/report.html")
                mlflow.log_artifact(f"{name}/run.json")
    except Exception as error:  # noqa: BLE001  the client may raise anything; the results are already written
        raise NoTracking(f"the run was not logged to {uri}: {type(error).__name__}: {error}") from None


def _tags(run: Run) -> Iterator[tuple[str, str]]:
    yield "model", run.model
    yield "offline", str(run.offline).lower()
    yield "surface_digest", run.surface_digest
    for one in run.definitions:
        yield f"digest.{one.id}", one.digest
        yield f"commit.{one.id}", one.commit


def _metrics(run: Run) -> Iterator[tuple[str, float]]:
    for one in run.definitions:
        for name, value in gate_metrics(run, one.slot).items():
            yield f"{one.slot}.{name}", value


def _mlflow() -> Tracking:
    try:
        import mlflow  # type: ignore[import-not-found]  # noqa: PLC0415  an extra: only `--mlflow` needs it
    except ImportError:
        raise NoTracking("--mlflow needs the client: pip install 'subagents-evals[mlflow]'") from None
    found: Tracking = mlflow
    return found
