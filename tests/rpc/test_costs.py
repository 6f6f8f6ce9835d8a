"""What sub-agents cost: exact, unknown rather than zero, on record, and bounded by budgets that survive a restart."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from msgspec.structs import replace

from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds
from sidecar.composition.record.open_record import RecordDependencies, opened_record
from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.cost_budget import CostBudgets
from sidecar.core.dispatching.money import units
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.record.ports import Store
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerError, RunnerEvent, RunRequest, UsageReported
from sidecar.settings.record import PostgresRecordSettings, RecordSettings, SqliteRecordSettings
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from tests.support.builders import MODEL, a_card, with_limits
from tests.support.fake_runner import ScriptedRunner, answers, raises
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.lagging_lists import LaggingLists
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.requests import failure_of

PRICED = replace(MODEL, price_per_million_input=0.15, price_per_million_output=0.6)
ASKING = answers("Found.", usage=(1000, 500))
"""Costs 1000 x 0.00000015 + 500 x 0.0000006 = 0.00045 US dollars."""


def priced(name: str, **limits: Any) -> Card:
    """Return a card whose model has prices."""
    return replace(with_limits(a_card(name), **limits), model=PRICED)


def cards() -> list[Card]:
    """Return two sub-agents with prices, and one without."""
    return [priced("shop"), priced("rewards"), a_card("support")]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own."""
    with running_postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def record(request: pytest.FixtureRequest, tmp_path: Path) -> RecordSettings:
    """Both databases that a deployment may have."""
    if request.param == "sqlite":
        return RecordSettings(database="sqlite", sqlite=SqliteRecordSettings(path=tmp_path / "record.sqlite"))
    server: PostgresServer = request.getfixturevalue("server")
    dsn = tmp_path / "dsn"
    dsn.touch(0o600)
    dsn.write_text(server.dsn(server.new_database()), encoding="utf-8")
    return RecordSettings(database="postgresql", postgresql=PostgresRecordSettings(dsn_file=dsn))


@asynccontextmanager
async def sidecar_on(record: RecordSettings, cost: CostBudgets) -> AsyncIterator[SidecarForTests]:
    """Serve from a real database; each entry is another process as far as the record can tell."""
    async with AsyncExitStack() as stack:
        recorder = MeasuringRecorder(Metrics())
        tasks = OwnedTasks(lambda name, error: None)
        around = RecordDependencies(SystemClock(), SystemIds(), tasks, recorder, Redactor())
        opened = await stack.enter_async_context(opened_record(record, around))
        store: Store = opened.store
        sidecar = await stack.enter_async_context(
            running_sidecar_for_tests(store=store, cards=cards(), rules={"cost": cost})
        )
        for slot in ("shop", "rewards", "support"):
            sidecar.runner.use(slot, ASKING)
        yield sidecar


async def test_a_call_costs_its_tokens_times_the_prices_exactly() -> None:
    """Per call in the outcome, per definition and arm in the counter, and in the routing decision."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        sidecar.runner.use("shop", ASKING)
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop")
        ended = await sidecar.end(bound)

        assert reply.of("call-1").usage.cost_usd == "0.00045"
        assert sidecar.recorder.of("money_spent") == [("shop", "shop", "active", units(0.00045))]
        (call,) = ended.routing_decision.calls
        assert (call.usage.cost_usd, call.rollout_arm) == ("0.00045", "active")


async def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    """So is the cost of a runner that reports no tokens."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        sidecar.runner.use("support", ASKING)
        sidecar.runner.use("shop", answers("Found."))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_support", "ask_shop")

        assert not reply.of("call-1").usage.HasField("cost_usd")
        assert not reply.of("call-2").HasField("usage")
        assert sidecar.recorder.of("money_spent") == [("support", "support", "active", None)]


async def test_failed_attempts_cost_as_well() -> None:
    """Twice the tokens, twice the cost."""

    async def fails(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield UsageReported(1000, 500)
        if request.attempt == 1:
            raise RunnerError("busy", transient=True)
        yield NarrationPart("Found.")
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[priced("shop", max_retries=1)]) as sidecar:
        sidecar.runner.use("shop", fails)
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (reply.of("call-1").attempts, reply.of("call-1").usage.cost_usd) == (2, "0.0009")


async def test_the_turns_budget_refuses_the_next_child_before_it_starts(record: RecordSettings) -> None:
    """The first dispatch may start; the next one may not, nor after a restart; another turn may."""
    budget = CostBudgets(turn=units(0.0004))
    async with sidecar_on(record, budget) as sidecar:
        bound = await sidecar.bind(turn_id="turn-1")
        first = await sidecar.dispatch(bound, "ask_shop")
        second = await sidecar.dispatch(bound, "ask_shop", "ask_nobody")

        assert (first.outcomes, second.outcomes) == (["SUCCEEDED"], ["REFUSED", "REFUSED"])
        assert second.of("call-1").status.reason == ErrorReason.ERROR_REASON_COST_BUDGET
        assert "turn" in second.of("call-1").status.message
        assert sidecar.runner.started == ["shop"]
    async with sidecar_on(record, budget) as sidecar:
        again = await sidecar.dispatch(bound, "ask_rewards")
        other = await sidecar.dispatch(await sidecar.bind(turn_id="turn-2"), "ask_rewards")

        assert (again.outcomes, other.outcomes) == (["REFUSED"], ["SUCCEEDED"])


async def test_the_budget_of_a_user_and_day_counts_over_turns_restarts_and_replicas(record: RecordSettings) -> None:
    """Another user is not concerned."""
    budget = CostBudgets(principal_and_day=units(0.0008))
    async with sidecar_on(record, budget) as sidecar:
        first = await sidecar.dispatch(await sidecar.bind(turn_id="turn-1", principal="user-ada"), "ask_shop")
        assert first.outcomes == ["SUCCEEDED"]
    async with sidecar_on(record, budget) as sidecar:
        second = await sidecar.dispatch(await sidecar.bind(turn_id="turn-2", principal="user-ada"), "ask_shop")
        third = await sidecar.dispatch(await sidecar.bind(turn_id="turn-3", principal="user-ada"), "ask_shop")
        other = await sidecar.dispatch(await sidecar.bind(turn_id="turn-4", principal="user-eve"), "ask_shop")

        assert [each.outcomes for each in (second, third, other)] == [["SUCCEEDED"], ["REFUSED"], ["SUCCEEDED"]]
        assert third.of("call-1").status.reason == ErrorReason.ERROR_REASON_COST_BUDGET


async def test_while_the_lists_lag_no_dispatch_begins_under_a_budget_of_a_user_and_day() -> None:
    """Turns that are missing from a list would not count. Once the lists are complete, the budget decides again."""
    store = LaggingLists()
    rules = {"cost": CostBudgets(principal_and_day=units(0.0008))}
    async with running_sidecar_for_tests(store=store, cards=cards(), rules=rules) as sidecar:
        sidecar.runner.use("shop", ASKING)
        for _ in range(2):
            reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")
            assert reply.outcomes == ["SUCCEEDED"]
        third = await sidecar.bind()
        failure = await failure_of(sidecar.dispatch(third, "ask_shop"))
        await store.projector.catch_up()
        decided = await sidecar.dispatch(third, "ask_shop")

        assert decided.of("call-1").status.reason == ErrorReason.ERROR_REASON_COST_BUDGET
        assert (failure.code, failure.reason) == (StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
        assert sidecar.runner.started == ["shop", "shop"]


async def test_a_call_that_waits_for_its_turn_is_refused_if_the_one_before_it_used_the_budget_up() -> None:
    """Calls under `max_parallel` start one after the other, each within what is left then."""
    rules = {"cost": CostBudgets(turn=units(0.0004))}
    async with running_sidecar_for_tests(cards=cards(), rules=rules) as sidecar:
        sidecar.runner.use("shop", ASKING)
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_shop")

        assert reply.outcomes == ["SUCCEEDED", "REFUSED"]
        assert sidecar.runner.started == ["shop"]


async def test_a_definition_without_prices_is_refused_under_a_budget() -> None:
    """What it costs cannot be known, hence it could exceed the budget without a trace."""
    rules = {"cost": CostBudgets(turn=units(100.0))}
    async with running_sidecar_for_tests(cards=cards(), rules=rules) as sidecar:
        sidecar.runner.use("shop", raises(ValueError("reports nothing")))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_support", "ask_shop")

        assert reply.outcomes == ["REFUSED", "FAILED"]
        assert "not known" in reply.of("call-1").status.message
