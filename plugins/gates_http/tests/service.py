"""The reference gate service over real HTTP, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from examples.gates.server import ReferenceGates
from examples.gates.switches import Behaviour, Switch
from examples.http_serving import serving
from sidecar.policy.lifecycle import GateQuestion, Verdict
from sidecar_conformance.gate_bench import GateClientBench, GateFault
from sidecar_gates_http import HttpGates, HttpGateSettings

TOKEN: Final = "s3cret-of-the-gates"

BEHAVIOUR_OF: Final[Mapping[GateFault, Behaviour]] = {
    GateFault.GARBAGE: Behaviour.GARBAGE,
    GateFault.UNKNOWN_VERDICT: Behaviour.UNKNOWN_VERDICT,
    GateFault.OTHER_DIGEST: Behaviour.WRONG_DIGEST,
    GateFault.OTHER_STEP: Behaviour.WRONG_STEP,
    GateFault.EXPIRED: Behaviour.EXPIRED,
    GateFault.HANG: Behaviour.HANG,
}


class HttpBench(GateClientBench):
    """The service, with a token that its clients read from a file."""

    secrets = (TOKEN,)

    def __init__(self, folder: Path) -> None:
        self._token_file = folder / "token"
        self._token_file.write_text(TOKEN)
        self._url = ""
        self.gates = ReferenceGates(token=TOKEN)
        self._decided: dict[tuple[str, str], Verdict] = {}

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with serving(self.gates.app(), self.gates.switches.clear, "critical") as url:
            self._url = url
            self._set_again()
            yield

    @override
    def make(self) -> HttpGates:
        return HttpGates(HttpGateSettings(url=self._url, token_file=self._token_file, wait_seconds=0))

    @override
    async def decide(self, question: GateQuestion, verdict: Verdict) -> None:
        self._decided[(question.gate, question.definition_id)] = verdict
        self._set_again()

    @override
    async def misbehave(self, fault: GateFault) -> None:
        self._set_again()
        self.gates.token = "another" if fault is GateFault.AWAY else TOKEN
        if fault in BEHAVIOUR_OF:
            self.gates.switches.set(Switch(behaviour=BEHAVIOUR_OF[fault]))
        await asyncio.sleep(0)

    def _set_again(self) -> None:
        self.gates.switches.clear()
        self.gates.answers.clear()
        self.gates.switches.set(Switch(behaviour=Behaviour.PENDING))
        for (gate, definition_id), verdict in self._decided.items():
            switch = Switch(behaviour=Behaviour(verdict), gate=gate, definition_id=definition_id)
            self.gates.switches.set(switch)


@asynccontextmanager
async def asked_service(**settings: Any) -> AsyncIterator[tuple[ReferenceGates, HttpGates]]:
    """Serve without a token, and have a client with these settings."""
    gates = ReferenceGates()
    async with serving(gates.app(), gates.switches.clear, "critical") as url:
        client = HttpGates(HttpGateSettings(**{"url": url, "wait_seconds": 0, **settings}))
        try:
            yield gates, client
        finally:
            await client.close()
