"""Webhooks of a whole process: a receiver that refuses is told of, and a killed sidecar sends again what it must."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from examples.http_serving import serving
from plugins.audit_webhook.tests.receiver import FIRST, SECOND, SOURCE, Receiver, secrets_file
from tests.support.operated_process import OperatedProcess, operated_process
from tests.support.sidecar_process import next_look, place

pytestmark = pytest.mark.system

SETTINGS = """
[plugins]
enabled = ["sidecar-audit-webhook"]
[audit]
sinks = ["oncall"]
[audit_sinks.oncall]
plugin = "webhook"
url = "{url}/hooks"
source = "{source}"
secret_file = "{secrets}"
types = ["subagent.rollout.event.killed"]
"""


async def attention(bench: OperatedProcess, is_it: Callable[[Sequence[str]], bool]) -> Sequence[str]:
    """Return what needs attention according to `/readyz`, as soon as it is so."""
    async with asyncio.timeout(30):
        while not is_it(found := (await bench.sidecar.page("/readyz")).json()["attention"]):
            await next_look()
    return list(found)


@pytest.mark.seconds(90)
async def test_a_kill_reaches_a_receiver_that_refused_and_again_after_a_crash_before_the_answer_was_noted() -> None:
    """A wrong secret is shown; corrected, the event comes; the sidecar is killed before the answer: it comes again."""
    receiver = Receiver(secret=SECOND)
    with place() as folder:
        secrets = secrets_file(folder, FIRST)
        async with serving(receiver.app(), receiver.go_on.set, "critical") as url:
            settings = SETTINGS.format(url=url, source=SOURCE, secrets=secrets)
            async with operated_process(folder, settings) as bench:
                await bench.killed("shop", request_id="r-kill")
                (said,) = await attention(bench, bool)
                receiver.go_on.clear()
                receiver.secret = FIRST
                receiver.came.clear()
                await asyncio.wait_for(receiver.came.wait(), 30)
                bench.sidecar.signal(signal.SIGKILL)
                await bench.sidecar.ended()
            receiver.go_on.set()
            before = len(receiver.requests)
            async with operated_process(folder, settings) as bench:
                async with asyncio.timeout(30):
                    while len(receiver.requests) == before:
                        await next_look()
                await bench.sidecar.metrics_show("sidecar_audit_waiting_seconds 0.0")
                assert await attention(bench, lambda found: not found) == []

    assert said.startswith("the audit sink oncall takes nothing, and its oldest event waits for ")
    assert said.endswith("with HTTP status 401: does it know the secret of `secret_file`?")
    ids = {headers["webhook-id"] for headers, _ in receiver.requests}
    killed: list[dict[str, Any]] = [event["data"] for event in receiver.accepted]
    assert len(ids) == 1
    assert {(each["what"], each["subagent_id"], each["request_id"]) for each in killed} == {
        ("killed", "shop", "r-kill")
    }
    assert len(receiver.requests) == before + 1
