"""The runner suite can fail: each planted defect is found, and each case finds at least one."""

import asyncio
import json
import threading
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sidecar.core.identifiers import Principal
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from sidecar_conformance.runner import RunnerSuite
from sidecar_conformance.runner_bench import SeenRun
from sidecar_conformance.suite import STALL, case_names, failures_of
from tests.plugins.memory_host import MemoryHostBench, StraightRunner
from tests.plugins.suites import only


class FinishesTwice(StraightRunner):
    """Every run ends twice."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Add an end."""
        async for event in super().run(request):
            yield event
        yield RunFinished()


class LosesProgress(StraightRunner):
    """Forgets progress attributes, components and narration after the first part."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Leave things out."""
        said = 0
        async for event in super().run(request):
            if isinstance(event, StatusReported):
                yield StatusReported(event.type)
            elif isinstance(event, NarrationPart):
                said += 1
                if said == 1:
                    yield event
            elif not isinstance(event, ComponentMade):
                yield event


class CountsDifferences(StraightRunner):
    """Reports what was used since the last report."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Subtract."""
        before = UsageReported(0, 0)
        async for event in super().run(request):
            if isinstance(event, UsageReported):
                yield UsageReported(
                    event.input_tokens - before.input_tokens, event.output_tokens - before.output_tokens
                )
                before = event
            else:
                yield event


class AlwaysHadData(StraightRunner):
    """Swallows that data was unavailable."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Say that all is well."""
        async for event in super().run(request):
            yield RunFinished() if isinstance(event, RunFinished) else event


class FillsInWords(StraightRunner):
    """Answers something where the sub-agent answered nothing."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Make something up."""
        silent = True
        async for event in super().run(request):
            silent = silent and not isinstance(event, NarrationPart)
            if silent and isinstance(event, RunFinished):
                yield NarrationPart("Done.")
            yield event


class HoldsBack(StraightRunner):
    """Passes on what a run brought only once it has succeeded."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Gather."""
        for event in [each async for each in super().run(request)]:
            yield event


class NormalisesThePrincipal(StraightRunner):
    """Brings names into one Unicode form."""

    def seen_of(self, request: RunRequest) -> SeenRun:
        """Normalise."""
        seen = super().seen_of(request)
        principal = Principal(unicodedata.normalize("NFC", seen.context.principal))
        return replace(seen, context=msgspec.structs.replace(seen.context, principal=principal))


class GuessesLocale(StraightRunner):
    """Unknown becomes empty."""

    def seen_of(self, request: RunRequest) -> SeenRun:
        """Guess."""
        seen = super().seen_of(request)
        return replace(seen, context=msgspec.structs.replace(seen.context, locale=seen.context.locale or ""))


class KeepsTheRequestOnly(StraightRunner):
    """Passes no other argument on."""

    def seen_of(self, request: RunRequest) -> SeenRun:
        """Cut."""
        seen = super().seen_of(request)
        return replace(seen, arguments_json=json.dumps({"request": json.loads(seen.arguments_json)["request"]}))


class EverythingIsTransient(StraightRunner):
    """Calls every failure one that may pass."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Relabel."""
        try:
            async for event in super().run(request):
                yield event
        except RunnerError as error:
            raise RunnerError(error.detail, transient=True) from error


class DiesOfAFailure(StraightRunner):
    """After one failure every run fails."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Remember."""
        try:
            async for event in super().run(request):
                yield event
        except RunnerError:
            self.closed = True
            raise


class Clings(StraightRunner):
    """A cancelled run goes on for an hour."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Take a cancellation for nothing."""
        try:
            async for event in super().run(request):
                yield event
        except asyncio.CancelledError:
            await asyncio.Event().wait()


class LeavesTheAgentRunning(StraightRunner):
    """Goes away without a word to the sub-agent."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Read what a task of its own brings."""
        queue: asyncio.Queue[RunnerEvent] = asyncio.Queue()

        async def pump() -> None:
            async for event in super(LeavesTheAgentRunning, self).run(request):
                queue.put_nowait(event)

        self.pumping = asyncio.ensure_future(pump())
        while True:
            yield await queue.get()


class OneAtATime(StraightRunner):
    """A run waits for the one before."""

    def __init__(self, bench: MemoryHostBench, *, there: bool = True) -> None:
        super().__init__(bench, there=there)
        self._turn = asyncio.Lock()

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Queue."""
        async with self._turn:
            async for event in super().run(request):
                yield event


class SharesTheUser(StraightRunner):
    """The first run's user serves for all."""

    first: Any = None

    def seen_of(self, request: RunRequest) -> SeenRun:
        """Reuse."""
        self.first = self.first or request.context
        return replace(super().seen_of(request), context=self.first)


class Blocks(StraightRunner):
    """Waits without awaiting."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Hold the loop up."""
        threading.Event().wait(STALL + 0.3)
        async for event in super().run(request):
            yield event


class CloseWaits(StraightRunner):
    """Closing waits for whatever runs."""

    running = 0

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Count."""
        self.running += 1
        async for event in super().run(request):
            yield event
        self.running -= 1

    async def close(self) -> None:
        """Wait for ever if something runs."""
        if self.running:
            await asyncio.Event().wait()
        await super().close()


class ClosesOnce(StraightRunner):
    """The second close fails."""

    async def close(self) -> None:
        """Raise the second time."""
        if self.closed:
            raise RuntimeError("closed already")
        await super().close()


class RaisesAfterClose(StraightRunner):
    """A later run ends with an error that nobody expects."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Raise."""
        if self.closed:
            raise AttributeError("no connection")
        async for event in super().run(request):
            yield event


class NewTargets(StraightRunner):
    """Each runner has a name of its own."""

    @property
    def target(self) -> str:
        """Return the object's address."""
        return f"memory:{id(self)}"


class TellsTheGrant(StraightRunner):
    """Errors show the request."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Explain too much."""
        try:
            async for event in super().run(request):
                yield event
        except RunnerError as error:
            raise RunnerError(f"{error} while running {request}") from error


DEFECTS: dict[type[StraightRunner], set[str]] = {
    FinishesTwice: {"test_a_run_ends_with_exactly_one_finish"},
    LosesProgress: {
        "test_status_and_component_come_as_the_sub_agent_gave_them",
        "test_narration_joins_to_what_was_said",
    },
    CountsDifferences: {"test_the_last_usage_is_the_total"},
    AlwaysHadData: {"test_missing_data_is_passed_on"},
    FillsInWords: {"test_an_empty_answer_stays_empty"},
    HoldsBack: {"test_what_was_made_before_a_failure_arrives_before_it"},
    NormalisesThePrincipal: {"test_principal_and_context_arrive_unchanged"},
    GuessesLocale: {"test_what_is_unknown_stays_unknown"},
    KeepsTheRequestOnly: {"test_arguments_contract_and_grant_arrive"},
    EverythingIsTransient: {
        "test_a_failing_sub_agent_fails_its_run_for_good",
        "test_a_host_that_is_away_is_unreachable",
    },
    DiesOfAFailure: {"test_the_runner_works_after_a_failure"},
    Clings: {"test_a_cancelled_run_ends_soon"},
    LeavesTheAgentRunning: {"test_a_cancel_reaches_the_sub_agent"},
    OneAtATime: {"test_runs_at_once_neither_wait_for_each_other_nor_mix"},
    SharesTheUser: {"test_runs_at_once_neither_wait_for_each_other_nor_mix"},
    Blocks: {"test_a_hanging_sub_agent_does_not_hold_up_the_event_loop"},
    CloseWaits: {"test_close_ends_while_a_run_hangs"},
    ClosesOnce: {"test_close_may_be_called_twice"},
    RaisesAfterClose: {"test_a_run_after_close_is_an_error_of_the_run"},
    NewTargets: {"test_the_target_stays_the_same"},
    TellsTheGrant: {"test_no_text_shows_the_grant_or_the_user"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[StraightRunner]) -> None:
    """By the cases made for it; others may see it too."""
    suite: Any = only(RunnerSuite, DEFECTS[defect], jumping=defect is not Blocks)

    assert set(failures_of(suite, lambda: MemoryHostBench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(RunnerSuite)


def test_a_right_runner_has_no_failures() -> None:
    """Else the defects above prove nothing."""
    assert failures_of(only(RunnerSuite, case_names(RunnerSuite)), MemoryHostBench) == {}
