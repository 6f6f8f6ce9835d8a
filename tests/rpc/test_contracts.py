"""Every child has a delegation contract, stored before its worker starts, and never changed (SX section 2)."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import msgspec

from sidecar.core.executing.records import ChildOpened
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import ScriptedRunner, answers
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway, contract_of, event_names, kept, row_of
from tests.support.requests import a_call, failure_of
from tests.support.requirement import requirement


async def stored_contract(sidecar: SidecarForTests, **fields: Any) -> dict[str, dict[str, object]]:
    """Dispatch one call to the shop and return the contract that is stored for it."""
    bound = await sidecar.bind(turn_id="turn-7")
    call = a_call("call-1", "ask_shop", '{"request": "cheapest oat milk"}')
    reply = await sidecar.dispatch(bound, call, **fields)
    return contract_of(sidecar, reply.of("call-1").child_id)


@requirement("SX-5", "SX-6")
async def test_a_contract_names_its_parent_and_its_step() -> None:
    """Run, place, the user's words, the summary; title, request, criteria of the card."""
    shop = a_card("shop", success_criteria=("names a price",))
    async with running_sidecar_for_tests(cards=[shop]) as sidecar:
        contract = await stored_contract(sidecar, task_prompt="Where is milk cheap?", prior_context="Likes oats.")

        assert contract["parent"] == {
            "run_id": "turn-7",
            "step_idx": 0,
            "task_prompt": "Where is milk cheap?",
            "goal_summary": "Likes oats.",
        }
        assert contract["step"] == {
            "title": "ask_shop",
            "description": "cheapest oat milk",
            "success_criteria": ["names a price"],
        }


@requirement("SX-7", "SX-8", "SX-9", "SX-14")
async def test_a_contract_bounds_tools_children_time_and_output() -> None:
    """What the card says, and where it says nothing: no children, no retry, closing on completion."""
    shop = with_limits(a_card_with_tools("shop", "offers"), attempt_timeout=timedelta(seconds=20))
    async with running_sidecar_for_tests(cards=[shop]) as sidecar:
        contract = await stored_contract(sidecar)

        assert contract["permissions"] == {
            "allowed_tools": ["offers"],
            "can_spawn_children": False,
            "max_delegation_depth": 0,
        }
        assert contract["execution"] == {"attempt_timeout_ms": 20_000, "max_retries": 0, "close_on_completion": True}
        assert set(contract["outputs"]) == {"report_format", "report_path_pattern"}


@requirement("SX-3", "SX-19", "SX-27")
async def test_row_and_contract_are_stored_before_the_worker_starts() -> None:
    """What a sub-agent finds in the store when it begins: its row with the contract it was handed, two events."""
    found: list[object] = []

    async with running_sidecar_for_tests() as sidecar:

        async def looks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            found.append(row_of(sidecar, request.child_id).context_json == request.contract_json)
            found.append(event_names(sidecar, request.child_id))
            yield NarrationPart("looked")
            yield RunFinished()

        sidecar.runner.use("shop", looks)
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert found == [True, ["created", "started"]]


@requirement("SX-3")
async def test_without_a_stored_contract_nothing_runs() -> None:
    """The store refuses: so is the dispatch, and no sub-agent was asked; the same request later begins it."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound = await sidecar.bind()
        store.away = True
        refused = await failure_of(sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1"))
        assert (refused.reason, sidecar.runner.started) == ("STORE_UNAVAILABLE", [])

        store.away = False
        reply = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")

        assert (reply.outcomes, sidecar.runner.started) == (["SUCCEEDED"], ["shop"])


@requirement("SX-3", "SX-19")
async def test_each_called_sub_agent_has_a_contract_of_its_own() -> None:
    """Two that run and one over the cap: two rows, with the places of their calls."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        await sidecar.dispatch(await sidecar.bind(), "ask_support", "ask_shop", "ask_rewards")

        rows = kept(sidecar, ChildOpened)
        assert [(row.slot, row.step_idx) for row in rows] == [("support", 0), ("shop", 1)]
        assert [contract_of(sidecar, row.child_id)["sub_agent_id"] for row in rows] == ["support", "shop"]
        assert len({row.child_id for row in rows}) == 2


@requirement("SX-12")
async def test_a_child_cannot_alter_the_contract_it_was_given() -> None:
    """It widens its copy and then calls a tool of the wider one: refused, and the stored text is as before.

    The refusal names the served card: the configuration may list the tool since.
    """
    refusals: list[str] = []

    async def widens(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        mine = msgspec.json.decode(request.contract_json)
        mine["permissions"]["allowed_tools"].append("archive")
        refused = await failure_of(runner.call_tool(request.grant, "archive", "{}"))
        refusals.extend((refused.reason, refused.message))
        yield NarrationPart(msgspec.json.encode(mine["permissions"]).decode()[1:])
        yield RunFinished()

    card = a_card_with_tools("shop", "offers", known=("archive",))
    async with running_sidecar_for_tests(cards=[card]) as sidecar:
        sidecar.runner.use("shop", widens)

        contract = await stored_contract(sidecar)

        said = f"the contract of the served card (shop, digest {card.digest}) does not allow this tool"
        assert refusals == ["TOOL_NOT_ALLOWED", said]
        assert contract["permissions"]["allowed_tools"] == ["offers"]
        assert row_of(sidecar, sidecar.runner.requests[0].child_id).context_json == (
            sidecar.runner.requests[0].contract_json
        )


@requirement("SX-13", "SX-2")
async def test_a_tool_beyond_the_contract_is_refused_and_reaches_no_data_service() -> None:
    """One tool of the contract answers, one that the registry knows and one nobody knows do not; both are on record."""
    reasons: list[str] = []

    async def reaches_out(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.call_tool(request.grant, "offers", "{}")
        reasons.append((await failure_of(runner.call_tool(request.grant, "archive", "{}"))).reason)
        reasons.append((await failure_of(runner.call_tool(request.grant, "ask_rewards", "{}"))).reason)
        yield NarrationPart("tried")
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers", known=("archive",))]) as sidecar:
        sidecar.runner.use("shop", reaches_out)
        sidecar.connector.reply = an_envelope

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reasons == ["TOOL_NOT_ALLOWED", "TOOL_NOT_ALLOWED"]
        assert [call.tool_id for call in sidecar.connector.calls] == ["offers"]
        assert event_names(sidecar, reply.of("call-1").child_id).count("tool_refused") == 2


@requirement("SX-20")
async def test_a_worker_knows_its_own_context_and_nothing_of_its_siblings() -> None:
    """Neither the sibling's request nor its grant, child or attempt is in what a worker is handed."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers())
        await sidecar.dispatch(
            await sidecar.bind(),
            a_call("call-1", "ask_shop", '{"request": "milk and honey"}'),
            a_call("call-2", "ask_rewards", '{"request": "points of the month"}'),
        )

        shop, rewards = sidecar.runner.request_of("shop"), sidecar.runner.request_of("rewards")
        for mine, other, words in ((shop, rewards, "points of the month"), (rewards, shop, "milk and honey")):
            handed = repr(mine)
            assert not any(each in handed for each in (words, other.grant, other.child_id, other.attempt_id))
