"""What a call owns while it runs."""

from collections.abc import AsyncGenerator

from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest
from tests.support.builders import a_card
from tests.support.fake_runner import Script, ScriptedRunner
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement


@requirement("SX-49")
async def test_calls_whose_cards_own_the_same_run_one_after_the_other() -> None:
    """Both own the cart: the second starts when the first has settled, a third beside them at once."""
    order: list[str] = []
    cards = [a_card("a", ownership=("cart",)), a_card("b", ownership=("cart",)), a_card("c")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:

        def notes(slot: str, *first: str) -> Script:
            async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
                order.append(f"{slot} begins")
                await runner.until_started(*first)
                order.append(f"{slot} ends")
                yield NarrationPart(slot)
                yield RunFinished()

            return script

        for slot, first in (("a", ("c",)), ("b", ()), ("c", ("a",))):
            sidecar.runner.use(slot, notes(slot, *first))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_a", "ask_b", "ask_c")

        assert reply.outcomes == ["SUCCEEDED"] * 3
        assert order.index("a ends") < order.index("b begins")
        assert order.index("c begins") < order.index("a ends")
