"""The routing decision of a turn: one for every turn, in the answer to EndTurn, in the log and in the store."""

from msgspec.structs import replace

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.policy.protocols import StatusReported
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2, routing_pb2
from subagents.errors.v1 import error_reason_pb2
from tests.support.builders import a_card, a_catalogue
from tests.support.enum_words import word
from tests.support.fake_runner import answers, raises, reports
from tests.support.harness import SidecarForTests, outcome_name, running_sidecar_for_tests
from tests.support.requests import a_call
from tests.support.requirement import requirement


def stored(sidecar: SidecarForTests) -> list[RoutingRecord]:
    """Return the rows that were written."""
    assert isinstance(sidecar.store, MemoryStore)
    return [record for record in sidecar.store.records() if isinstance(record, RoutingRecord)]


def cap_of(decision: routing_pb2.RoutingDecision) -> str:
    """Return how the turn's calls compare with the cap."""
    return outcome_pb2.CapBehaviour.Name(decision.cap).removeprefix("CAP_BEHAVIOUR_")


@requirement("PC2-FR-15a", "PC2-D-51")
async def test_every_turn_leaves_exactly_one_record_also_without_a_call() -> None:
    """A turn without a dispatch, ended twice: one log record and one row, with every candidate in it."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(turn_id="quiet")
        decision = (await sidecar.end(bound)).routing_decision
        await sidecar.end(bound)
        assert decision.turn_id == "quiet"
        assert (list(decision.calls), decision.intent_count, cap_of(decision)) == ([], 0, "WITHIN")
        assert [each.sub_agent_id for each in decision.candidates] == ["shop", "rewards", "support"]
        (row,), ((logged,),) = stored(sidecar), sidecar.recorder.of("turn_routed")
        assert row == logged
        assert row.turn_id == "quiet"


@requirement("PC2-FR-15a")
async def test_each_turn_has_a_record_of_its_own() -> None:
    """Three turns of one episode, with none, one and two calls."""
    async with running_sidecar_for_tests() as sidecar:
        for tools in ([], ["ask_shop"], ["ask_shop", "ask_rewards"]):
            bound = await sidecar.bind()
            if tools:
                await sidecar.dispatch(bound, *tools)
            await sidecar.end(bound)
        assert [len(record.calls) for record in stored(sidecar)] == [0, 1, 2]


@requirement("PC2-FR-15b", "PC2-FR-15e")
async def test_the_record_names_each_invoked_sub_agent_and_its_outcome() -> None:
    """One that answers, one without its data, one that fails, one that is dropped, one that nobody knows."""
    async with running_sidecar_for_tests(cap=3, cards=[a_card(name) for name in "abcd"]) as sidecar:
        sidecar.runner.use("b", answers(data_unavailable=True))
        sidecar.runner.use("c", raises(RuntimeError("never shown")))
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_a", "ask_b", "ask_c", "ask_d", "ask_nobody")
        decision = (await sidecar.end(bound)).routing_decision
        assert [(call.sub_agent_id, outcome_name(call.outcome)) for call in decision.calls] == [
            ("a", "SUCCEEDED"),
            ("b", "DEGRADED"),
            ("c", "FAILED"),
            ("d", "DROPPED"),
            ("", "REFUSED"),
        ]
        axis, reason = error_reason_pb2.FailureAxis.Name, error_reason_pb2.ErrorReason.Name
        assert [axis(call.axis).removeprefix("FAILURE_AXIS_") for call in decision.calls[:3]] == [
            "UNSPECIFIED",
            "DATA",
            "EXECUTION",
        ]
        assert reason(decision.calls[2].reason) == "ERROR_REASON_RUNNER_FAILED"
        assert "never shown" not in str(decision)


@requirement("PC2-FR-15b")
async def test_the_record_tells_when_each_call_ran() -> None:
    """Started before settled, within the turn; a call that never ran has no start."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        decision = (await sidecar.end(bound)).routing_decision
        ran, dropped = decision.calls
        times = [decision.bound_at, ran.started_at, ran.settled_at, decision.ended_at]
        assert times == sorted(times, key=lambda each: each.ToNanoseconds())
        assert ran.attempts == 1
        assert not dropped.HasField("started_at")
        assert dropped.attempts == 0


@requirement("PC2-FR-15c", "PC2-D-16", "PC2-D-64")
async def test_the_intent_count_is_the_number_of_distinct_sub_agents_before_the_cap() -> None:
    """Cap 1, five calls to three sub-agents, of which one runs."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards", "ask_shop", "ask_support", "ask_rewards")
        decision = (await sidecar.end(bound)).routing_decision
        assert sidecar.runner.started == ["shop"]
        assert reply.result.intents.emitted == 3
        assert decision.intent_count == 3


@requirement("PC2-FR-15c")
async def test_declared_and_emitted_intents_are_listed_for_each_response() -> None:
    """Declared in a call's arguments, in the request, and at the end without a dispatch; more than called: failsafe."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        declaring = a_call("c-1", "ask_shop", '{"request": "both", "intent_count": 3}')
        first = await sidecar.dispatch(bound, declaring)
        await sidecar.dispatch(bound, "ask_rewards", declared_intent_count=1)
        decision = (await sidecar.end(bound, declared_intent_count=2)).routing_decision
        assert first.result.intents.failsafe
        counts = [(each.declared, each.emitted, each.failsafe) for each in decision.intents]
        assert counts == [(3, 1, True), (1, 1, False), (2, 0, True)]
        assert decision.intent_count == 2


@requirement("PC2-FR-15d")
async def test_the_record_says_how_the_calls_compare_with_the_cap() -> None:
    """Cap 2: one call, two and three; over several responses the worst counts."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        seen = []
        names = ["ask_shop", "ask_rewards", "ask_support"]
        for sizes in ([1], [2], [3], [1, 3, 1], [1, 2]):
            bound = await sidecar.bind()
            for size in sizes:
                await sidecar.dispatch(bound, *names[:size])
            decision = (await sidecar.end(bound)).routing_decision
            assert decision.fan_out_cap == 2
            seen.append(cap_of(decision))
        assert seen == ["WITHIN", "AT", "OVER", "OVER", "AT"]


@requirement("PC2-FR-15a", "PF1-D-37")
async def test_the_record_holds_what_the_turn_was_bound_to() -> None:
    """Cohort, digest and orchestrator as in the surface, although the configuration changed before the turn ended."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(episode_id="e-7", experiment_arm="blue")
        changed = replace(a_catalogue(a_card("shop")), agent_definition_version="definitions-2")
        sidecar.definitions.load(changed)
        decision = (await sidecar.end(bound)).routing_decision
        assert decision.cohort == bound.surface.cohort
        assert decision.cohort.experiment_arm_assignment == "blue"
        assert decision.binding_digest == bound.surface.binding_digest
        assert list(decision.candidates) == list(bound.surface.candidates)
        assert (decision.episode_id, decision.orchestrator_id) == ("e-7", "concierge")
        assert (word(decision, "close_reason"), decision.principal_asserted_by) == ("ended", "orchestrator")
        fields = [field.name for field in decision.cohort.DESCRIPTOR.fields]
        assert fields == [
            "agent_definition_version",
            "prompt_block_registry_version",
            "xml_prompt_component_registry_version",
            "active_feature_flags",
            "experiment_arm_assignment",
            "active_sub_agents",
        ]


async def test_the_record_counts_progress_and_holds_no_words() -> None:
    """Reports before the policy are counted; nothing that user, model or sub-agent wrote is in the record."""
    async with running_sidecar_for_tests() as sidecar:
        canary = "canary-9d2e"
        sidecar.runner.use("shop", reports(*[StatusReported("thinking_aloud", {"text": canary})] * 3))
        bound = await sidecar.bind(principal=canary, location=canary)
        arguments = f'{{"request": "{canary}"}}'
        call = a_call("c-1", "ask_shop", arguments)
        await sidecar.dispatch(bound, call, prior_context=canary, task_prompt=canary)
        decision = (await sidecar.end(bound, narration=canary)).routing_decision
        assert decision.calls[0].status_events == 3
        assert canary not in str(decision)


async def test_a_child_that_the_parent_rejects_fails_the_gate() -> None:
    """Two answers, one rejected: the gate needs all that ran, or as many as the join policy says."""
    async with running_sidecar_for_tests() as sidecar:
        for join, passed in ((pb.JoinPolicy(), False), (pb.JoinPolicy(min_success=1), True)):
            bound = await sidecar.bind()
            reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards", join=join)
            rejected = pb.Integration(
                child_id=reply.of("call-1").child_id, verdict=pb.VERDICT_REJECTED, reason="contradicts itself"
            )
            ended = await sidecar.end(bound, integrations=[rejected])
            assert [(word(each, "final_status"), word(each, "close_reason")) for each in ended.children] == [
                ("failed", "integration_failed"),
                ("completed", "integrated"),
            ]
            assert ended.gate_passed == ended.routing_decision.gate_passed == passed
