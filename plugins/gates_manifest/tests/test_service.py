"""The manifest as a gate service, asked by the real gate client `http` over a real socket."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from plugins.gates_manifest.tests.manifests import manifest_with, result_of
from sidecar.policy.lifecycle import GateAnswer, GateUnavailable, Verdict
from sidecar_conformance.gate_client import QUESTION
from sidecar_gates_http.client import HttpGates
from sidecar_gates_http.settings import settings_from
from sidecar_gates_manifest import ManifestGates
from sidecar_gates_manifest.__main__ import log
from sidecar_gates_manifest.service import GateService, Question


@contextmanager
def serving(
    manifest: Path, token: str = "", decided: Callable[[Question, GateAnswer], None] = lambda *_: None
) -> Iterator[str]:
    """Serve a manifest; yield the address."""
    service = GateService("127.0.0.1", 0, ManifestGates(manifest), token, decided)
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{service.server_address[1]}"
    finally:
        service.shutdown()
        thread.join()
        service.server_close()


def written(folder: Path, *results: dict[str, Any]) -> Path:
    """Write a manifest."""
    file = folder / "evaluation_manifest.yaml"
    file.write_text(yaml.safe_dump(manifest_with(*results)), "utf-8")
    return file


async def asked(address: str, **settings: Any) -> GateAnswer:
    """Ask the suite's question with the real client."""
    client = HttpGates(settings_from({"url": address, **settings}))
    try:
        return await client.ask(QUESTION)
    finally:
        await client.close()


@pytest.mark.parametrize(("success", "verdict"), [(0.95, Verdict.PASS), (0.5, Verdict.FAIL)])
async def test_a_sidecar_without_the_file_gets_the_verdict_of_the_manifest(
    success: float, verdict: Verdict, tmp_path: Path
) -> None:
    """About exactly the question, so that the sidecar believes it."""
    with serving(written(tmp_path, result_of(QUESTION, success))) as address:
        answer = await asked(address)

    assert (answer.verdict, answer.digest, answer.gate) == (verdict, QUESTION.digest, QUESTION.gate)


async def test_a_result_that_is_labelled_offline_holds_the_step(tmp_path: Path) -> None:
    """However good its figures are."""
    with serving(written(tmp_path, result_of(QUESTION, 1.0, offline=True))) as address:
        answer = await asked(address)

    assert answer.verdict is Verdict.PENDING
    assert "offline only" in answer.summary


async def test_a_manifest_that_cannot_be_used_is_an_outage_and_no_fail(tmp_path: Path) -> None:
    """It is not there."""
    with serving(tmp_path / "none.yaml") as address, pytest.raises(GateUnavailable):
        await asked(address)


async def test_the_token_is_asked_for(tmp_path: Path) -> None:
    """Without it no verdict, with it one."""
    (tmp_path / "token").write_text("s3cret", "ascii")
    with serving(written(tmp_path, result_of(QUESTION)), token="s3cret") as address:
        with pytest.raises(GateUnavailable):
            await asked(address)
        answer = await asked(address, token_file=str(tmp_path / "token"))

    assert answer.verdict is Verdict.PASS


def test_what_is_no_question_is_refused(tmp_path: Path) -> None:
    """Each in its own way; and a question that comes again is answered as before, though the manifest has changed."""
    manifest = written(tmp_path, result_of(QUESTION))
    body, key = msgspec.json.encode(QUESTION), {"idempotency-key": "one"}
    with serving(manifest) as address, httpx.Client(base_url=address, trust_env=False) as http:
        first = http.post("/v1/evaluations", content=body, headers=key)
        manifest.write_text(yaml.safe_dump(manifest_with(result_of(QUESTION, 0.1))), "utf-8")
        again = http.post("/v1/evaluations", content=body, headers=key)
        other = http.post("/v1/evaluations", content=body.replace(b"false", b"true"), headers=key)
        others = [
            http.post("/v1/evaluations", content=b"{}", headers=key).status_code,
            http.post("/v1/evaluations", content=body).status_code,
            http.post("/elsewhere", content=body, headers=key).status_code,
            http.post("/v1/evaluations", content=b" " * 70_000, headers=key).status_code,
        ]

    assert first.json()["verdict"] == again.json()["verdict"] == "pass"
    assert other.status_code == 409
    assert others == [400, 400, 404, 400]


async def test_each_decision_can_be_logged_with_its_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of JSON with the figures; a question that comes again under its key is no second decision."""
    with serving(written(tmp_path, result_of(QUESTION)), decided=log) as address:
        for _ in range(2):
            await asked(address)

    (line,) = capsys.readouterr().out.splitlines()
    said = msgspec.json.decode(line)
    assert said["question"] == msgspec.to_builtins(QUESTION)
    assert (said["answer"]["verdict"], said["answer"]["digest"]) == ("pass", QUESTION.digest)
    assert said["answer"]["summary"] == "all thresholds met: task_success 0.95"


def test_it_serves_this_machine_only(tmp_path: Path) -> None:
    """A changed answer can promote."""
    with pytest.raises(ValueError, match="serve on 127"):
        GateService("0.0.0.0", 0, ManifestGates(tmp_path / "none.yaml"))
