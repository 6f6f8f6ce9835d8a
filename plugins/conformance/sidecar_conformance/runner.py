"""Cases for runners, contract `runner/1`."""
# ruff: noqa: S101  the cases are tests

import asyncio
import json
from typing import ClassVar

from msgspec.structs import replace

from sidecar.core.identifiers import Principal
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    StatusReported,
    UsageReported,
)
from sidecar_conformance import runner_bench as script
from sidecar_conformance.run_requests import (
    CONTEXT,
    CONTRACT_JSON,
    GRANT,
    events_and_failure_of,
    events_of,
    failure_of,
    hanging,
    made,
    request_for,
)
from sidecar_conformance.runner_bench import AgentScript, RunnerBench, SeenRun
from sidecar_conformance.suite import SOON, Suite, beats, case, ends_soon, lively_loop


class RunnerSuite(Suite):
    """Subclass it with a fixture `bench` that returns a `RunnerBench`."""

    abilities: ClassVar = {
        "remote": "the sub-agent's host is another process or service, which may be away",
        "cancels_agent": "cancelling a run reaches the sub-agent",
        "usage": "the sub-agent can report tokens",
    }

    @case()
    async def test_a_run_ends_with_exactly_one_finish(self, bench: RunnerBench) -> None:
        """`RunFinished` is the last event, and reports that no data were missing."""
        async with made(bench) as runner:
            events = await events_of(runner, request_for(AgentScript.ANSWER))
            assert [event for event in events if isinstance(event, RunFinished)] == [RunFinished()]
            assert events[-1] == RunFinished()

    @case()
    async def test_status_and_component_come_as_the_sub_agent_gave_them(self, bench: RunnerBench) -> None:
        """Each arrives once, in order, with equivalent JSON."""
        async with made(bench) as runner:
            events = await events_of(runner, request_for(AgentScript.ANSWER))
            status, component = (event for event in events if isinstance(event, StatusReported | ComponentMade))
            assert status == StatusReported(script.STATUS_TYPE, script.STATUS_ATTRIBUTES)
            assert isinstance(component, ComponentMade)
            assert component.name == script.COMPONENT
            assert json.loads(component.tool_input_json) == json.loads(script.TOOL_INPUT_JSON)
            assert json.loads(component.component_data_json) == json.loads(script.COMPONENT_DATA_JSON)

    @case()
    async def test_narration_joins_to_what_was_said(self, bench: RunnerBench) -> None:
        """The parts of the narration, joined in order, are exactly the text of the sub-agent."""
        async with made(bench) as runner:
            events = await events_of(runner, request_for(AgentScript.ANSWER))
            said = "".join(event.text for event in events if isinstance(event, NarrationPart))
            assert said == "".join(script.NARRATION)

    @case(needs="usage")
    async def test_the_last_usage_is_the_total(self, bench: RunnerBench) -> None:
        """Reports of tokens are running totals, not differences."""
        async with made(bench) as runner:
            events = await events_of(runner, request_for(AgentScript.ANSWER))
            usage = [event for event in events if isinstance(event, UsageReported)]
            told = usage[-1]
            assert (told.input_tokens, told.output_tokens) == (script.INPUT_TOKENS, script.OUTPUT_TOKENS)

    @case()
    async def test_missing_data_is_passed_on(self, bench: RunnerBench) -> None:
        """The runner reports that the sub-agent lacked data; no other part of the sidecar knows it."""
        async with made(bench) as runner:
            events = await events_of(runner, request_for(AgentScript.NO_DATA))
            assert events[-1] == RunFinished(data_unavailable=True)

    @case()
    async def test_an_empty_answer_stays_empty(self, bench: RunnerBench) -> None:
        """The runner adds no text: the sidecar itself fails an empty answer, unless the card allows it."""
        async with made(bench) as runner:
            events = await events_of(runner, request_for(AgentScript.EMPTY))
            assert "".join(event.text for event in events if isinstance(event, NarrationPart)) == ""
            assert not [event for event in events if isinstance(event, ComponentMade)]
            assert events[-1] == RunFinished()

    @case()
    async def test_what_was_made_before_a_failure_arrives_before_it(self, bench: RunnerBench) -> None:
        """The record keeps component and narration of a failed run as evidence."""
        async with made(bench) as runner:
            events, error = await events_and_failure_of(runner, request_for(AgentScript.FAIL_LATE))
            assert isinstance(error, RunnerError)
            assert [event.name for event in events if isinstance(event, ComponentMade)] == [script.COMPONENT]
            said = "".join(event.text for event in events if isinstance(event, NarrationPart))
            assert said == "".join(script.NARRATION)

    @case()
    async def test_principal_and_context_arrive_unchanged(self, bench: RunnerBench) -> None:
        """They are equal byte for byte, without trimming or Unicode normalisation."""
        async with made(bench) as runner:
            await events_of(runner, request_for(AgentScript.ANSWER))
            assert [run.context for run in bench.seen] == [CONTEXT]

    @case()
    async def test_what_is_unknown_stays_unknown(self, bench: RunnerBench) -> None:
        """An unknown locale or location stays None and does not become an empty text."""
        async with made(bench) as runner:
            context = replace(CONTEXT, locale=None, location=None, prior_context="", task_prompt="")
            await events_of(runner, request_for(AgentScript.ANSWER, context=context))
            assert [run.context for run in bench.seen] == [context]

    @case()
    async def test_arguments_contract_and_grant_arrive(self, bench: RunnerBench) -> None:
        """The sub-agent gets all of them unchanged, including arguments that it does not use."""
        async with made(bench) as runner:
            arguments = {"request": "answer", "limit": 3, "text": 'ä\n"x"', "deep": [{"n": None}]}
            await events_of(runner, request_for(AgentScript.ANSWER, arguments_json=json.dumps(arguments)))
            (run,) = bench.seen
            assert run.child_id == "child-1"
            assert json.loads(run.arguments_json) == arguments
            assert json.loads(run.contract_json) == json.loads(CONTRACT_JSON)
            assert run.grant in {None, GRANT}

    @case()
    async def test_a_failing_sub_agent_fails_its_run_for_good(self, bench: RunnerBench) -> None:
        """The `RunnerError` is not transient and not unreachable: another attempt would fail in the same way."""
        async with made(bench) as runner:
            error = await failure_of(runner, request_for(AgentScript.FAIL))
            assert isinstance(error, RunnerError)
            assert (error.transient, error.unreachable) == (False, False)

    @case()
    async def test_the_runner_works_after_a_failure(self, bench: RunnerBench) -> None:
        """A failed run does not affect the next run."""
        async with made(bench) as runner:
            await failure_of(runner, request_for(AgentScript.FAIL))
            events = await events_of(runner, request_for(AgentScript.ANSWER, "child-2"))
            assert events[-1] == RunFinished()

    @case(needs="remote")
    async def test_a_host_that_is_away_is_unreachable(self, bench: RunnerBench) -> None:
        """The `RunnerError` is transient, so that the sidecar may retry, and unreachable, which the breaker counts."""
        async with bench.running():
            runner = bench.make_without_host()
            error = await failure_of(runner, request_for(AgentScript.ANSWER))
            await asyncio.wait_for(runner.close(), SOON)
            assert isinstance(error, RunnerError)
            assert (error.transient, error.unreachable) == (True, True)

    @case()
    async def test_a_cancelled_run_ends_soon(self, bench: RunnerBench) -> None:
        """The next run of this runner succeeds."""
        async with made(bench) as runner:
            run = hanging(runner)
            await asyncio.wait_for(bench.started("child-1"), SOON)
            run.cancel()
            await ends_soon(run, "a cancelled run")
            assert (await events_of(runner, request_for(AgentScript.ANSWER, "child-2")))[-1] == RunFinished()

    @case(needs="cancels_agent")
    async def test_a_cancel_reaches_the_sub_agent(self, bench: RunnerBench) -> None:
        """The result is discarded, so the sub-agent must stop requesting data."""
        async with made(bench) as runner:
            run = hanging(runner)
            await asyncio.wait_for(bench.started("child-1"), SOON)
            run.cancel()
            await asyncio.wait_for(bench.ended("child-1"), SOON)
            await ends_soon(run, "a cancelled run")

    @case()
    async def test_runs_at_once_neither_wait_for_each_other_nor_mix(self, bench: RunnerBench) -> None:
        """Of three concurrent runs for different users, one hangs, one fails and one answers."""
        async with made(bench) as runner:
            run = hanging(runner, "child-1")
            await asyncio.wait_for(bench.started("child-1"), SOON)
            users = [replace(CONTEXT, principal=Principal(name)) for name in ("two", "three")]
            error, events = await asyncio.gather(
                failure_of(runner, request_for(AgentScript.FAIL, "child-2", context=users[0])),
                events_of(runner, request_for(AgentScript.ANSWER, "child-3", context=users[1])),
            )
            assert isinstance(error, RunnerError)
            assert events[-1] == RunFinished()
            assert not run.done()
            seen = {each.child_id: each.context.principal for each in bench.seen}
            assert seen == {"child-1": CONTEXT.principal, "child-2": "two", "child-3": "three"}
            run.cancel()
            await ends_soon(run, "a cancelled run")

    @case()
    async def test_a_hanging_sub_agent_does_not_hold_up_the_event_loop(self, bench: RunnerBench) -> None:
        """The event loop stays responsive while a sub-agent hangs."""
        async with made(bench) as runner:
            async with lively_loop():
                run = hanging(runner)
                await asyncio.wait_for(bench.started("child-1"), SOON)
                await beats()
            run.cancel()
            await ends_soon(run, "a cancelled run")

    @case()
    async def test_close_ends_while_a_run_hangs(self, bench: RunnerBench) -> None:
        """A shutdown does not wait for a run, which can be cancelled afterwards."""
        async with made(bench) as runner:
            run = hanging(runner)
            await asyncio.wait_for(bench.started("child-1"), SOON)
            await asyncio.wait_for(runner.close(), SOON)
            run.cancel()
            await ends_soon(run, "a run whose runner was closed")

    @case()
    async def test_close_may_be_called_twice(self, bench: RunnerBench) -> None:
        """A failed start may close what the shutdown closes again."""
        async with made(bench) as runner:
            await asyncio.wait_for(runner.close(), SOON)
            await asyncio.wait_for(runner.close(), SOON)

    @case()
    async def test_a_run_after_close_is_an_error_of_the_run(self, bench: RunnerBench) -> None:
        """The error is a `RunnerError`."""
        async with made(bench) as runner:
            await asyncio.wait_for(runner.close(), SOON)
            assert isinstance(await failure_of(runner, request_for(AgentScript.ANSWER)), RunnerError)

    @case()
    async def test_the_target_stays_the_same(self, bench: RunnerBench) -> None:
        """The breaker counts failures by `target`, which must not change and is equal for all runners of one host."""
        async with made(bench) as runner:
            before = runner.target
            await events_of(runner, request_for(AgentScript.ANSWER))
            other = bench.make()
            assert before
            assert (runner.target, other.target) == (before, before)
            await asyncio.wait_for(other.close(), SOON)

    @case()
    async def test_no_text_shows_the_grant_or_the_user(self, bench: RunnerBench) -> None:
        """Neither the text of the runner nor the text of its exception contains them: both can reach a log."""
        async with made(bench) as runner:
            error = await failure_of(runner, request_for(AgentScript.FAIL))
            texts = f"{runner!r} {runner} {error!r} {error}"
            assert GRANT not in texts
            assert CONTEXT.principal not in texts


__all__ = ["AgentScript", "RunnerBench", "RunnerSuite", "SeenRun"]
