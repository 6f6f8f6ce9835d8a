"""What is logged to MLflow, held against a recording of its interface; the client itself is an extra."""

from contextlib import nullcontext
from typing import Any

import pytest

from clients.evals.tests.support.trials import case_of, run_of, trial_of
from subagents_evals.report.mlflow_log import NoTracking, log_run

RUN = run_of(trial_of(case_of("one", "shop"), "shop"))


class Recorded:
    """Stands in for the module `mlflow`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: dict[str, Any] = {}
        self.artifacts: dict[str, str] = {}
        self._error = error

    def set_tracking_uri(self, uri: str) -> None:
        """Take note."""
        self.calls["uri"] = uri

    def set_experiment(self, experiment_name: str) -> None:
        """Take note, or fail as a server that is away."""
        if self._error:
            raise self._error
        self.calls["experiment"] = experiment_name

    def start_run(self, *, run_name: str, tags: dict[str, str]) -> Any:
        """Take note."""
        self.calls |= {"name": run_name, "tags": tags}
        return nullcontext()

    def log_params(self, params: dict[str, Any]) -> None:
        """Take note."""
        self.calls["params"] = params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        """Take note."""
        self.calls["metrics"] = metrics

    def log_artifact(self, local_path: str) -> None:
        """Read it: the file is gone afterwards."""
        with open(local_path, encoding="utf-8") as opened:
            self.artifacts[local_path.rpartition("/")[2]] = opened.read()


def test_a_run_is_logged_with_the_digest_of_each_definition_as_a_tag() -> None:
    """With model, label, metrics by sub-agent, report and JSON."""
    tracking = Recorded()

    log_run(RUN, "http://127.0.0.1:5000", "<p>report</p>", tracking)

    assert tracking.calls["tags"]["digest.shop"] == "sha256:shop"
    assert (tracking.calls["tags"]["model"], tracking.calls["tags"]["offline"]) == ("openai:some-model", "false")
    assert tracking.calls["metrics"]["shop.routing_accuracy"] == 1.0
    assert tracking.artifacts["report.html"] == "<p>report</p>"
    assert '"case_id": "one"' in tracking.artifacts["run.json"]


def test_a_server_that_is_away_is_told_and_loses_no_result() -> None:
    """The message names server and error; results were written before."""
    with pytest.raises(NoTracking, match=r"not logged to http://127\.0\.0\.1:5000: ConnectionError: refused"):
        log_run(RUN, "http://127.0.0.1:5000", "", Recorded(ConnectionError("refused")))
