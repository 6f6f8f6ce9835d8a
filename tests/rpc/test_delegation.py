"""A sub-agent that asks another one: what it may, what is on record of it, and how it ends."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.executing.records import CallSettled, ChildOpened
from sidecar.policy.protocols import ComponentMade, NarrationPart, RunFinished, RunnerEvent, RunRequest, UsageReported
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.history.v1 import history_pb2
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import Script, ScriptedRunner, answers, calls_tool, hangs, raises
from tests.support.harness import SidecarForTests, outcome_name, running_sidecar_for_tests
from tests.support.history import a_turn, episode_of
from tests.support.records import contract_of, event_named, event_names, kept
from tests.support.requests import failure_of
from tests.support.requirement import requirement


class Told:
    """What a delegating sub-agent heard, in order: answers, and reasons of refusals."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._news = asyncio.Event()

    async def until(self, count: int) -> None:
        """Wait until so much was heard."""
        while len(self.heard) < count:
            self._news.clear()
            await self._news.wait()

    def asks(self, *tool_names: str, arguments: str = '{"request": "help"}', tokens: int = 0) -> Script:
        """Return a script that asks one sub-agent after the other, then says that it is done."""

        async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            for name in tool_names:
                await self._ask(request, runner, name, arguments)
            if tokens:
                yield UsageReported(tokens, 0)
            yield NarrationPart("done")
            yield RunFinished()

        return script

    async def _ask(self, request: RunRequest, runner: ScriptedRunner, name: str, arguments: str) -> None:
        answering = runner.delegate(request.grant, name, arguments)
        try:
            answer = await answering
        except Exception as error:  # noqa: BLE001 - what kind it is, the test says
            failure = await failure_of(_raising(error))
            self.heard.append(failure.metadata.get("reason", failure.reason))
        else:
            self.heard.append(f"{outcome_name(answer.outcome).lower()}: {answer.narration or answer.message}")
        self._news.set()


async def _raising(error: BaseException) -> None:
    raise error


def may_delegate(card: Card, depth: int = 1, **limits: Any) -> Card:
    """Return the card with delegation allowed."""
    return with_limits(card, max_delegation_depth=depth, **limits)


def below(sidecar: SidecarForTests) -> list[ChildOpened]:
    """Return the rows of children that children delegated to, in order."""
    return [row for row in kept(sidecar, ChildOpened) if row.parent_child_id is not None]


def closings(sidecar: SidecarForTests) -> dict[str, str]:
    """Return how each child was closed, by slot; every one must be."""
    rows = kept(sidecar, ChildOpened)
    details = {row.slot: event_named(sidecar, row.child_id, "closed").details() for row in rows}
    return {slot: f"{each['final_status']}: {each['close_reason']}" for slot, each in details.items()}


async def dispatched(
    sidecar: SidecarForTests, *calls: str, **fields: Any
) -> tuple[pb.BindTurnResponse, Sequence[str], Any]:
    """Bind, dispatch and return the turn, the outcomes and the reply."""
    bound = await sidecar.bind()
    reply = await sidecar.dispatch(bound, *calls, **fields)
    return bound, reply.outcomes, reply


@requirement("PC2-D-46", "SX-14", "SX-17", "SX-16")
async def test_a_sub_agent_whose_contract_says_nothing_may_ask_nobody() -> None:
    """One hop: the call is refused as off, nobody starts, and the attempt is on record."""
    told = Told()
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", told.asks("ask_rewards"))

        _, outcomes, reply = await dispatched(sidecar, "ask_shop")

        assert (told.heard, outcomes, sidecar.runner.started) == (["off"], ["SUCCEEDED"], ["shop"])
        refused = event_named(sidecar, reply.of("call-1").child_id, "delegation_refused")
        assert (refused.actor, refused.details()["reason"], refused.details()["tool"]) == (
            "sub-agent",
            "off",
            "ask_rewards",
        )
        assert sidecar.runner.requests[0].delegates == ()


@requirement("SX-4", "SX-15", "SX-16", "SX-3")
async def test_whom_a_child_asks_is_on_record_with_a_narrower_contract_before_it_starts() -> None:
    """Row, contract and both sides' events are there when it begins; the contract is what was handed to it."""
    found: list[Any] = []
    told = Told()
    shop = may_delegate(a_card_with_tools("shop", "offers", "stock"), tool_calls=5)
    rewards = may_delegate(a_card_with_tools("rewards", "stock", "points"), depth=3, tool_calls=9, max_retries=2)
    async with running_sidecar_for_tests(cards=[shop, rewards]) as sidecar:

        async def looks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            (row,) = below(sidecar)
            found.append(row.context_json == request.contract_json)
            found.append(event_names(sidecar, row.child_id))
            found.append(event_names(sidecar, str(row.parent_child_id)))
            yield NarrationPart("twelve points")
            yield RunFinished()

        sidecar.runner.use("shop", told.asks("ask_rewards"))
        sidecar.runner.use("rewards", looks)
        _, _, reply = await dispatched(sidecar, "ask_shop")

        assert told.heard == ["succeeded: twelve points"]
        assert found == [True, ["created", "started"], ["created", "started", "attempt", "delegated"]]
        (row,) = below(sidecar)
        contract = contract_of(sidecar, row.child_id)
        assert row.parent_child_id == contract["parent_child_id"] == reply.of("call-1").child_id
        assert contract["permissions"] == {
            "allowed_tools": ["stock"],
            "can_spawn_children": True,
            "max_delegation_depth": 0,
        }
        assert (contract["budgets"]["tool_calls"], contract["execution"]["max_retries"]) == (5, 0)
        assert [each["sub_agent_id"] for each in contract["ancestors"]] == ["shop"]


@requirement("SX-16", "SX-25", "SX-26")
async def test_a_delegation_is_joined_and_closed_by_the_sidecar_and_is_no_call_of_the_orchestrator() -> None:
    """Closed before the turn ends; neither an outcome nor a routed call, and the run gate looks at own calls only."""
    told = Told()
    async with running_sidecar_for_tests(cards=[may_delegate(a_card("shop")), a_card("rewards")]) as sidecar:
        sidecar.runner.use("shop", told.asks("ask_rewards"))
        sidecar.runner.use("rewards", raises(RuntimeError("broken")))
        bound, outcomes, _ = await dispatched(sidecar, "ask_shop")

        (row,) = below(sidecar)
        assert outcomes == ["SUCCEEDED"]
        assert told.heard[0].startswith("failed: The assistant could not answer")
        assert event_names(sidecar, row.child_id)[-2:] == ["failed", "closed"]
        assert [each.outcome.sub_agent_id for each in kept(sidecar, CallSettled)] == ["shop"]

        ended = await sidecar.end(bound)

        assert closings(sidecar) == {"shop": "completed: integrated", "rewards": "failed: execution_failed"}
        assert [call.sub_agent_id for call in ended.routing_decision.calls] == ["shop"]
        assert sorted(each.sub_agent_id for each in ended.children) == ["rewards", "shop"]


@requirement("SX-15", "SX-17")
async def test_depth_ends_a_chain() -> None:
    """Two levels are allowed and the third is refused; each below has the path from the top in its contract."""
    told = Told()
    cards = [may_delegate(a_card(slot), depth) for slot, depth in (("a", 2), ("b", 5), ("c", 5), ("d", 5))]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        for slot, asked in (("a", "ask_b"), ("b", "ask_c"), ("c", "ask_d")):
            sidecar.runner.use(slot, told.asks(asked))

        _, outcomes, _ = await dispatched(sidecar, "ask_a")

        assert (outcomes, sidecar.runner.started) == (["SUCCEEDED"], ["a", "b", "c"])
        assert told.heard == ["depth", "succeeded: done", "succeeded: done"]
        paths = [contract_of(sidecar, row.child_id)["ancestors"] for row in below(sidecar)]
        assert [[each["sub_agent_id"] for each in path] for path in paths] == [["a"], ["a", "b"]]
        assert [[tool.name for tool in request.delegates] for request in sidecar.runner.requests] == [
            ["ask_b", "ask_c", "ask_d"],
            ["ask_c", "ask_d"],
            [],
        ]


@requirement("SX-17", "SX-16")
async def test_neither_itself_nor_who_waits_for_it_nor_anybody_unbound_may_be_asked() -> None:
    """Itself, its ancestor, and names that are not exactly on the surface; each leaves a trace."""
    told = Told()
    cards = [may_delegate(a_card(slot), 3) for slot in ("a", "b")]
    fakes = ("ask_B", "ask_", "b", "ask_bb", "ask_\u0432", "ask_c")
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("a", told.asks("ask_b"))
        sidecar.runner.use("b", told.asks("ask_b", "ask_a", *fakes))

        await dispatched(sidecar, "ask_a")

        assert told.heard == ["cycle", "cycle", *["not_bound"] * len(fakes), "succeeded: done"]
        (row,) = below(sidecar)
        assert event_names(sidecar, row.child_id).count("delegation_refused") == 2 + len(fakes)


async def test_arguments_that_do_not_fit_are_refused() -> None:
    """No object, and a wrong member: nobody is started."""
    told = Told()
    async with running_sidecar_for_tests(cards=[may_delegate(a_card("shop")), a_card("rewards")]) as sidecar:
        for arguments in ("[]", '{"wish": 1}'):
            sidecar.runner.use("shop", told.asks("ask_rewards", arguments=arguments))
            await dispatched(sidecar, "ask_shop")

        assert told.heard == ["INVALID_REQUEST", "INVALID_REQUEST"]
        assert sidecar.runner.started == ["shop", "shop"]


@requirement("SX-49")
async def test_what_a_running_sibling_owns_is_not_waited_for() -> None:
    """Two that ask each other are both refused, as is who would need what a third holds; none waits for ever."""
    told = Told()
    cards = [
        may_delegate(a_card("shop")),
        may_delegate(a_card("rewards")),
        a_card("support", ownership=("cart",)),
        a_card("basket", ownership=("cart",)),
    ]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("support", hangs())

        def after_all(name: str, *more: str) -> Script:
            inner = told.asks(name, *more)

            async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
                await runner.until_started("shop", "rewards", "support")
                async for event in inner(request, runner):
                    yield event

            return script

        sidecar.runner.use("shop", after_all("ask_rewards", "ask_basket"))
        sidecar.runner.use("rewards", after_all("ask_shop", "ask_basket"))
        bound = await sidecar.bind()
        reading = asyncio.ensure_future(sidecar.dispatch(bound, "ask_shop", "ask_rewards", "ask_support"))
        await sidecar.runner.until_started("support")
        async with asyncio.timeout(5):
            await told.until(4)
        await sidecar.end(bound)
        await reading

        assert told.heard == ["busy"] * 4
        assert "basket" not in sidecar.runner.started


async def test_at_most_as_many_as_the_cap_work_for_one_child_at_once() -> None:
    """Cap 1: while one is asked, a second is refused as busy."""
    reasons: list[str] = []
    cards = [may_delegate(a_card("a")), a_card("b"), a_card("c")]
    async with running_sidecar_for_tests(cap=1, cards=cards) as sidecar:

        async def asks_two(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            first = asyncio.ensure_future(runner.delegate(request.grant, "ask_b"))
            await runner.until_started("b")
            reasons.append((await failure_of(runner.delegate(request.grant, "ask_c"))).metadata["reason"])
            first.cancel()
            await runner.until_cancelled("b")
            yield NarrationPart("done")
            yield RunFinished()

        sidecar.runner.use("a", asks_two)
        sidecar.runner.use("b", hangs())
        bound, _, _ = await dispatched(sidecar, "ask_a")
        await sidecar.end(bound)

        assert reasons == ["busy"]
        assert closings(sidecar)["b"] == "failed: execution_failed"


@requirement("SX-2")
async def test_what_is_used_below_is_used_up_above() -> None:
    """Three tool calls in all: two below, one above, then no more, neither for data nor for a delegation."""
    told, reasons = Told(), list[str]()
    shop = may_delegate(a_card_with_tools("shop", "offers"), tool_calls=3)
    rewards = a_card_with_tools("rewards", "offers")
    async with running_sidecar_for_tests(cards=[shop, rewards]) as sidecar:
        asks = told.asks("ask_rewards")

        async def spends(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            async for _ in asks(request, runner):
                pass
            await runner.call_tool(request.grant, "offers", "{}")
            reasons.append((await failure_of(runner.call_tool(request.grant, "offers", "{}"))).reason)
            reasons.append((await failure_of(runner.delegate(request.grant, "ask_rewards"))).metadata["reason"])
            yield NarrationPart("done")
            yield RunFinished()

        sidecar.connector.reply = an_envelope
        sidecar.runner.use("shop", spends)
        sidecar.runner.use("rewards", calls_tool("offers", times=2))
        _, outcomes, _ = await dispatched(sidecar, "ask_shop")

        assert told.heard == ["succeeded: got data;got data;"]
        assert (reasons, outcomes) == (["TOOL_BUDGET_EXHAUSTED", "budget"], ["DEGRADED"])
        assert len(sidecar.connector.calls) == 3


async def test_tokens_below_count_above() -> None:
    """Ten tokens: eight below and three above are too many; the outcome tells all eleven."""
    told = Told()
    cards = [may_delegate(a_card("shop"), tokens=10), a_card("rewards")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:

        async def eight(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            yield UsageReported(5, 3, 4)
            yield NarrationPart("eight")
            yield RunFinished()

        sidecar.runner.use("shop", told.asks("ask_rewards", tokens=3))
        sidecar.runner.use("rewards", eight)
        _, outcomes, reply = await dispatched(sidecar, "ask_shop")

        assert (outcomes, told.heard) == (["DEGRADED"], ["succeeded: eight"])
        usage = reply.of("call-1").usage
        assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (8, 3, 4)
        assert sidecar.recorder.of("tokens_used") == [("rewards", Usage(5, 3, 4)), ("shop", Usage(3, 0))]


@requirement("PC2-FR-12a")
async def test_an_answer_for_somebody_else_below_leaves_nothing_above_it_whole() -> None:
    """The data service answers the child below for another user: it and who asked it are degraded."""
    told = Told()
    cards = [may_delegate(a_card_with_tools("shop", "offers")), a_card_with_tools("rewards", "offers")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.connector.reply = lambda call: an_envelope(call, principal="somebody-else")
        sidecar.runner.use("shop", told.asks("ask_rewards"))
        sidecar.runner.use("rewards", calls_tool("offers"))

        _, outcomes, reply = await dispatched(sidecar, "ask_shop")

        assert outcomes == ["DEGRADED"]
        assert reply.of("call-1").data_unavailable
        assert told.heard == ["degraded: got nothing;"]


async def test_components_of_whom_was_asked_come_with_its_answer() -> None:
    """They reach who asked, and not the outcome of the call by themselves."""
    got: list[Any] = []
    rewards = a_card("rewards", components={"render_points": {"type": "object"}})
    async with running_sidecar_for_tests(cards=[may_delegate(a_card("shop")), rewards]) as sidecar:

        async def asks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            got.append(await runner.delegate(request.grant, "ask_rewards"))
            yield NarrationPart("done")
            yield RunFinished()

        sidecar.runner.use("shop", asks)
        sidecar.runner.use("rewards", answers(components=[ComponentMade("render_points", "{}", '{"points": 7}')]))
        _, _, reply = await dispatched(sidecar, "ask_shop")

        assert [(each.name, msgspec.json.decode(each.component_data_json)) for each in got[0].components] == [
            ("render_points", {"points": 7})
        ]
        assert not reply.of("call-1").components


@requirement("SX-32")
async def test_history_holds_what_the_orchestrator_was_answered() -> None:
    """The one that was called, with its component; neither answer nor component of whom it asked."""
    told = Told()
    cards = [may_delegate(a_card("shop")), a_card("rewards", components={"render_points": {"type": "object"}})]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("shop", told.asks("ask_rewards"))
        points = ComponentMade("render_points", "{}", "{}")
        sidecar.runner.use("rewards", answers("seven", components=[points]))
        await a_turn(sidecar, "ask_shop", narration="All done.")

        (turn,) = (await episode_of(sidecar, view=history_pb2.EPISODE_VIEW_FULL)).turns

        assert told.heard == ["succeeded: seven"]
        assert [(each.sub_agent_id, each.narration) for each in turn.answers] == [("shop", "done")]
        assert not turn.tool_messages
