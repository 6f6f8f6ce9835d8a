"""Where the core scenario is played: a sidecar with scripted sub-agents, behind a cable that a runner can have cut."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from sidecar.policy.protocols import (
    Asked,
    Decision,
    NarrationPart,
    QuestionKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
)
from tests.support.builders import a_card, with_limits
from tests.support.cable import Cable, cable
from tests.support.fake_runner import ScriptedRunner
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests

SCENARIO: Final = Path(__file__).resolve().parents[2] / "clients" / "scenario" / "core.json"


@dataclass
class Stage:
    """What a runner is given, and what it is cut off by."""

    sidecar: SidecarForTests
    front: Path
    secret: Path
    control: Path
    cable: Cable

    @property
    def arguments(self) -> tuple[str, ...]:
        """What every runner is given."""
        return str(SCENARIO), str(self.front), str(self.secret), str(self.control)


def sub_agents(sidecar: SidecarForTests, cut: asyncio.Event) -> None:
    """Let the sub-agents do what the scenario is about."""
    asked: Counter[str] = Counter()

    async def shop(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        asked["shop"] += 1
        if asked["shop"] == 1:
            raise RunnerError("the shelves fell over")
        yield StatusReported("comparing_prices")  # which the policy turns into `working`
        await asyncio.Event().wait()

    async def support(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        asked["support"] += 1
        if asked["support"] == 1:
            yield StatusReported("searching_offers")
            await cut.wait()
            yield StatusReported("comparing_prices")
        yield NarrationPart("Your parcel arrives tomorrow." if asked["support"] == 1 else "We open at nine.")
        yield RunFinished()

    async def rewards(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        asked["rewards"] += 1
        if asked["rewards"] == 1:
            await asyncio.Event().wait()
        given = request.continuation
        if given is None:
            order = Asked(QuestionKind.NEEDS_APPROVAL, "Redeem 300 points?", state=b"points of user-1")
            yield RunFinished(asked=order)
            return
        done = "Redeemed" if given.answering.decision is Decision.APPROVED else "Kept"
        yield NarrationPart(f"{done}: {given.state.decode()}.")
        yield RunFinished()

    sidecar.runner.use("shop", shop)
    sidecar.runner.use("rewards", rewards)
    sidecar.runner.use("support", support)


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Start a sidecar behind a cable that a runner can have cut."""
    cards = [
        a_card("shop"),
        with_limits(a_card("rewards"), attempt_timeout=timedelta(milliseconds=300)),
        a_card("support"),
    ]
    async with running_sidecar_for_tests(cap=3, cards=cards) as sidecar:
        cut = asyncio.Event()
        sub_agents(sidecar, cut)
        front, secret, control = (sidecar.folder / name for name in ("front.sock", "secret", "control.sock"))
        secret.write_text(SECRET)
        async with cable(front, sidecar.folder / "dispatch.sock") as laid:

            async def on_control(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                laid.cut()
                cut.set()
                writer.close()

            server = await asyncio.start_unix_server(on_control, control)
            try:
                yield Stage(sidecar, front, secret, control, laid)
            finally:
                server.close()
