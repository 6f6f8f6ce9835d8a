"""Progress reports are typed identifiers; one policy for the whole platform decides what a listener sees of them."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest, StatusReported
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client import SidecarClient, StatusRenderer, StatusUpdate, ToolCall, TurnRequest
from tests.support.fake_runner import Script, ScriptedRunner, answers, meets, reports
from tests.support.harness import SECRET, Reply, running_sidecar_for_tests
from tests.support.requirement import requirement
from tests.support.whole_result import whole_result

FOREVER = timedelta(hours=1)


def statuses(reply: Reply) -> list[pb.StatusUpdate]:
    """Return the progress that a listener saw, in order."""
    return [event.status for event in reply.events if event.HasField("status")]


def batching(name: str) -> dict[str, object]:
    """Return rules that gather one type until its dispatch ends."""
    return {"vocabulary": Vocabulary({name: EventRule(Handling.BATCH, window=FOREVER)})}


@requirement("PC1-FR-13a", "PC2-FR-13a")
@pytest.mark.parametrize(
    "prose",
    ["Looking for the best offers!", "searching_offers ", "Searching_Offers", "looking", "", "suche_ängste", "x" * 65],
)
async def test_anything_but_a_known_identifier_is_dropped_and_counted(prose: str) -> None:
    """Between two known types, prose or an unknown type leaves no trace in the stream but in the count."""
    known = StatusReported("searching_offers")
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", reports(known, StatusReported(prose, {"text": "hello"}), known))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert [each.type for each in statuses(reply)] == ["searching_offers", "searching_offers"]
        assert [decision for _, decision in sidecar.recorder.of("status_seen")] == ["forward", "unknown", "forward"]
        assert sidecar.recorder.of("status_unknown") == [("shop", prose)]
        assert reply.outcomes == ["SUCCEEDED"]


@requirement("PC2-FR-13b", "PC1-FR-13c", "PC2-D-21")
async def test_the_policy_forwards_transforms_suppresses_or_batches_by_type() -> None:
    """One of each type; what the platform's vocabulary says decides, and the suppressed one never travels."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use(
            "shop", answers(statuses=["searching_offers", "comparing_prices", "thinking_aloud", "loading_data"])
        )

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert [each.type for each in statuses(reply)] == ["searching_offers", "working", "loading_data"]
        decisions = [decision for _, decision in sidecar.recorder.of("status_seen")]
        assert decisions == ["forward", "transform", "suppress", "batch"]


@requirement("PC1-FR-13c")
async def test_the_same_rule_holds_whichever_sub_agent_reports() -> None:
    """Shop and rewards report the same types: the listener sees the same of both."""
    async with running_sidecar_for_tests() as sidecar:
        for slot in ("shop", "rewards"):
            sidecar.runner.use(slot, answers(statuses=["comparing_prices", "thinking_aloud"]))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")

        seen = {tuple(each.sub_agent_ids): each.type for each in statuses(reply)}
        assert seen == {("shop",): "working", ("rewards",): "working"}


@requirement("PC2-D-20", "PC2-FR-13b")
async def test_a_batch_becomes_one_update_for_all_siblings() -> None:
    """Two sub-agents report the same three times: one update that names both once, in emission order."""
    twice = StatusReported("loading_data", {"store": "Aldi"})
    async with running_sidecar_for_tests(rules=batching("loading_data")) as sidecar:
        sidecar.runner.use("shop", reports(twice, twice))
        sidecar.runner.use("rewards", reports(twice))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_rewards", "ask_shop")

        (update,) = statuses(reply)
        assert (list(update.sub_agent_ids), update.count) == (["rewards", "shop"], 3)
        assert dict(update.attributes) == {"store": "Aldi"}
        (event,) = [event for event in reply.events if event.HasField("status")]
        assert event.call_id == ""


async def test_a_batch_is_passed_on_when_its_window_ends() -> None:
    """The sub-agent goes on only when the listener has seen the update: it does not wait for the end."""
    async with running_sidecar_for_tests() as sidecar:
        seen = asyncio.Event()

        async def reports_and_waits(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            yield StatusReported("loading_data")
            await seen.wait()
            yield NarrationPart("done")
            yield RunFinished()

        sidecar.runner.use("shop", reports_and_waits)
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop")
        frames = []
        async for message in sidecar.stub.Dispatch(request, timeout=10, metadata=sidecar.metadata):
            frames.append(message.frame)
            if any(event.status.type == "loading_data" for event in message.frame.events):
                seen.set()

        assert seen.is_set()
        assert whole_result(frames).outcomes[0].narration == "done"


@requirement("PC2-D-20")
async def test_one_chatty_sub_agent_is_held_to_its_rate_and_its_sibling_is_not() -> None:
    """Two reports at once are allowed to each; shop makes five, rewards two."""
    rules = {"vocabulary": Vocabulary({"searching_offers": EventRule()}, per_second=0.001, burst=2)}
    async with running_sidecar_for_tests(rules=rules) as sidecar:
        sidecar.runner.use("shop", answers(statuses=["searching_offers"] * 5))
        sidecar.runner.use("rewards", answers(statuses=["searching_offers"] * 2))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")

        by = [each.sub_agent_ids[0] for each in statuses(reply)]
        assert (by.count("shop"), by.count("rewards")) == (2, 2)
        assert [decision for _, decision in sidecar.recorder.of("status_seen")].count("rate_limited") == 3


@requirement("PC2-D-20", "PC2-D-11")
async def test_updates_of_siblings_come_interleaved_in_one_order() -> None:
    """Both report while both run: one ascending sequence holds the reports and changes of both."""
    async with running_sidecar_for_tests() as sidecar:
        for slot, other in (("shop", "rewards"), ("rewards", "shop")):
            sidecar.runner.use(slot, reports_then(slot, other))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")

        sequences = [event.sequence for event in reply.events]
        assert sequences == list(range(1, len(sequences) + 1))
        order = [event.call_id for event in reply.events if event.HasField("status")]
        assert sorted(order[:2]) == ["call-1", "call-2"]


def reports_then(slot: str, other: str) -> Script:
    """Report, wait until the sibling runs, report again."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield StatusReported("searching_offers", {"from": slot})
        async for event in meets(other)(request, runner):
            yield StatusReported("searching_offers", {"from": slot})
            yield event

    return script


@requirement("PC2-D-20")
async def test_an_update_says_who_reported_and_carries_bounded_values() -> None:
    """Twenty attributes of 300 characters: sixteen of 256 arrive, and the report is not refused."""
    many = {f"key{number:02}": "v" * 300 for number in range(20)}
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", reports(StatusReported("searching_offers", many)))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        (update,) = statuses(reply)
        assert (list(update.sub_agent_ids), update.count) == (["shop"], 1)
        assert (len(update.attributes), {len(value) for value in update.attributes.values()}) == (16, {256})


async def test_a_late_listener_is_told_which_events_are_gone() -> None:
    """The sidecar keeps four events and ten reports were made: a gap that ends where the kept ones begin."""
    async with running_sidecar_for_tests(rules={"replay_buffer_events": 4}) as sidecar:
        sidecar.runner.use("shop", answers(statuses=["searching_offers"] * 10))
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")

        reply = await sidecar.resume(bound, "d-1")

        first, *kept = reply.events
        assert (first.gap.from_sequence, first.gap.to_sequence) == (1, 8)
        assert [event.sequence for event in kept] == [9, 10, 11, 12]
        assert reply.outcomes == ["SUCCEEDED"]


async def test_the_result_has_each_answer_wherever_a_stream_begins() -> None:
    """The event has it, too, unless the stream was resumed after the event."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        whole = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")

        again = await sidecar.resume(bound, "d-1")
        after = await sidecar.resume(bound, "d-1", after=whole.events[-1].sequence)

        sent = [str(reply.frames).count("hello from shop") for reply in (whole, again, after)]
        assert sent == [2, 2, 1]
        assert again.events == whole.events
        assert after.frames[-1].result.outcomes[0].narration == "hello from shop"


async def test_a_late_listener_gets_exactly_what_it_has_not_seen() -> None:
    """It has seen the first two of the events: the rest follows without a gap, then the outcomes."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers(statuses=["searching_offers"] * 3))
        bound = await sidecar.bind()
        whole = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")

        rest = await sidecar.resume(bound, "d-1", after=2)

        assert rest.events == whole.events[2:]
        assert rest.frames[0].snapshot.state == pb.START_STATE_ATTACHED
        assert rest.result == whole.result


@requirement("PC2-T-22", "PC1-FR-13b")
async def test_a_typed_report_becomes_words_only_in_the_client() -> None:
    """On the wire there is the type and its values; the orchestrator's renderer makes the sentence, per locale."""
    renderer = StatusRenderer({"de": {"searching_offers": "Suche Angebote bei {store}…"}})
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", reports(StatusReported("searching_offers", {"store": "Aldi"})))
        async with SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET) as client:
            turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            async with turn.dispatch([ToolCall("call-1", "ask_shop", '{"request": "milk"}')]) as stream:
                updates = [event async for event in stream if isinstance(event, StatusUpdate)]

        (update,) = updates
        assert (update.type, dict(update.attributes)) == ("searching_offers", {"store": "Aldi"})
        assert renderer.render(update, "en-US") == "Looking for offers at Aldi…"
        assert renderer.render(update, "de-AT") == "Suche Angebote bei Aldi…"
