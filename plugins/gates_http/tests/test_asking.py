"""What is sent, what is sent again, and what is no answer."""

from pathlib import Path

import msgspec
import pytest

from examples.gates.switches import Behaviour, Switch
from plugins.gates_http.tests.service import TOKEN, HttpBench, asked_service
from sidecar.policy.lifecycle import GateUnavailable, Verdict
from sidecar_conformance.gate_client import QUESTION
from sidecar_gates_http import HttpGates, HttpGateSettings
from sidecar_gates_http.plugin import http_gates


async def test_the_service_is_asked_with_every_field_of_the_question_and_its_verdict_comes_back() -> None:
    """One POST, under the question's own idempotency key."""
    async with asked_service() as (gates, client):
        gates.switches.set(Switch(behaviour=Behaviour.FAIL, gate="pre_ramp"))

        answer = await client.ask(QUESTION)

        ((key, seen),) = gates.questions
    assert answer.verdict is Verdict.FAIL
    assert answer.evidence == {"report": "https://evaluations.example.com/shop/pre_ramp"}
    assert msgspec.to_builtins(seen) == msgspec.to_builtins(QUESTION)
    assert key == "conformance-1/pre_ramp"


async def test_a_connection_that_breaks_is_tried_again_and_nothing_is_evaluated_twice() -> None:
    """The first answer ends half-way."""
    async with asked_service(attempts=2) as (gates, client):
        gates.switches.set(Switch(behaviour=Behaviour.DROP, times=1))

        assert (await client.ask(QUESTION)).verdict is Verdict.PASS
        assert [key for key, _ in gates.questions] == ["conformance-1/pre_ramp"] * 2


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (Behaviour.ERROR, "the gate service answered with HTTP status 500"),
        (Behaviour.GARBAGE, "the gate service sent what is no answer to a question"),
        (Behaviour.UNKNOWN_VERDICT, "the gate service sent what is no answer to a question"),
        (Behaviour.HUGE, "the gate service sent more than 65536 bytes"),
        (Behaviour.HANG, "the gate service did not answer within 0.5 s"),
    ],
)
async def test_what_answers_wrongly_is_asked_once(behaviour: Behaviour, said: str) -> None:
    """An answer is never asked for again, and a slow service is not pressed."""
    async with asked_service(attempts=5, timeout_seconds=0.5 if behaviour is Behaviour.HANG else 5) as (gates, client):
        gates.switches.set(Switch(behaviour=behaviour))

        with pytest.raises(GateUnavailable) as away:
            await client.ask(QUESTION)

        assert away.value.detail == said
        assert len(gates.questions) == 1


async def test_a_service_that_is_not_there_is_tried_as_often_as_the_settings_say() -> None:
    """The port was closed a moment ago."""
    async with asked_service() as (_, client):
        url = client._settings.url
    nobody = HttpGates(HttpGateSettings(url=url, attempts=3, wait_seconds=0))

    with pytest.raises(GateUnavailable, match=r"cannot be reached \(ConnectError, 3 attempts\)"):
        await nobody.ask(QUESTION)

    await nobody.close()


async def test_the_token_is_read_at_each_question(tmp_path: Path) -> None:
    """It can be changed without a restart; a file that is gone holds."""
    bench = HttpBench(tmp_path)
    async with bench.running():
        client = bench.make()
        await bench.decide(QUESTION, Verdict.PASS)
        assert (await client.ask(QUESTION)).verdict is Verdict.PASS

        (tmp_path / "token").write_text("old")
        with pytest.raises(GateUnavailable, match="HTTP status 401"):
            await client.ask(QUESTION)
        (tmp_path / "token").unlink()
        with pytest.raises(GateUnavailable, match=r"the token file cannot be read \(FileNotFoundError\)"):
            await client.ask(QUESTION)

        (tmp_path / "token").write_text(f"{TOKEN}\n")
        assert (await client.ask(QUESTION)).verdict is Verdict.PASS
        await client.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "http://gates.example.com"}, "must be https:// beyond this machine"),
        ({"url": "ftp://gates.example.com"}, "must begin with http:// or https://"),
        ({"url": "https://user:word@gates.example.com"}, "must hold no user name"),
        ({"url": "https://gates.example.com", "client_key_file": "key.pem"}, "belong together"),
    ],
)
def test_settings_that_would_be_unsafe_are_refused(settings: dict[str, str], said: str) -> None:
    """When the client is made, so that its verticals' gates hold from the start."""
    with pytest.raises(ValueError, match=said):
        http_gates(settings)
