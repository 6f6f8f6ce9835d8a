"""Cases for flag backends, contract `flag-backend/1`."""
# ruff: noqa: S101  the cases are tests

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from sidecar.policy.protocols import FlagBackend, FlagReport, NamedFlagBackend
from sidecar_conformance.flag_bench import FlagBackendBench, SourceFault
from sidecar_conformance.suite import SOON, Suite, beats, case, ends_soon, lively_loop

ASK, OTHER = "ai_assistant_subagent_shop", "ai_assistant_subagent_rewards"


class FlagBackendSuite(Suite):
    """Subclass it with a fixture `bench` that returns a `FlagBackendBench`."""

    abilities: ClassVar = {
        "push": "`changed` returns within a second or so of a change",
        "hang": "the bench can let the source hang",
    }

    @case()
    async def test_a_fetch_reports_exactly_the_flags_that_are_on(self, bench: FlagBackendBench) -> None:
        """Two are on."""
        async with made(bench, ASK, OTHER) as backend:
            assert (await fetched(backend)).on == {ASK, OTHER}

    @case()
    async def test_a_report_has_the_contracts_types(self, bench: FlagBackendBench) -> None:
        """Frozen sets of names, none of them both on and off, and a revision to tell states apart by."""
        async with made(bench, ASK) as backend:
            report = await fetched(backend)
            assert isinstance(report, FlagReport)
            assert isinstance(report.on, frozenset)
            assert isinstance(report.off, frozenset)
            assert not report.on & report.off
            assert not report.unclear & (report.on | report.off)
            assert isinstance(backend, NamedFlagBackend) == (report.asked is not None)
            assert isinstance(report.revision, str)
            assert report.revision

    @case()
    async def test_a_flag_that_goes_off_leaves_the_report(self, bench: FlagBackendBench) -> None:
        """The other one stays."""
        async with made(bench, ASK, OTHER) as backend:
            await fetched(backend)
            await bench.set_flags(frozenset({OTHER}))
            assert (await fetched(backend)).on == {OTHER}

    @case()
    async def test_no_flag_on_is_an_answer_and_no_failure(self, bench: FlagBackendBench) -> None:
        """The source is there, and everything is off."""
        async with made(bench) as backend:
            assert (await fetched(backend)).on == frozenset()

    @case()
    async def test_the_revision_stays_while_nothing_changes(self, bench: FlagBackendBench) -> None:
        """Else every fetch would look like news."""
        async with made(bench, ASK) as backend:
            assert (await fetched(backend)).revision == (await fetched(backend)).revision

    @case()
    async def test_the_revision_changes_with_the_content(self, bench: FlagBackendBench) -> None:
        """One flag more."""
        async with made(bench, ASK) as backend:
            before = await fetched(backend)
            await bench.set_flags(frozenset({ASK, OTHER}))
            assert (await fetched(backend)).revision != before.revision

    @case()
    async def test_an_older_state_that_comes_back_is_seen(self, bench: FlagBackendBench) -> None:
        """After a rollback of the flags the source counts, not the newest value."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            await bench.set_flags(frozenset({OTHER}))
            await fetched(backend)
            await bench.set_flags(frozenset({ASK}))
            assert (await fetched(backend)).on == {ASK}

    @case()
    async def test_a_source_that_is_away_is_no_contact(self, bench: FlagBackendBench) -> None:
        """The fetch raises: an old report given as new would hide that it ages, and an empty one means all off."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            await bench.misbehave(SourceFault.AWAY)
            assert await failure_of(backend) is not None

    @case()
    async def test_a_start_without_source_is_no_contact(self, bench: FlagBackendBench) -> None:
        """Not even when nothing was ever fetched."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.AWAY)
            assert await failure_of(backend) is not None

    @case()
    async def test_garbage_is_no_contact(self, bench: FlagBackendBench) -> None:
        """Half an answer must not turn the other half off."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            await bench.misbehave(SourceFault.GARBAGE)
            assert await failure_of(backend) is not None

    @case()
    async def test_the_same_object_recovers(self, bench: FlagBackendBench) -> None:
        """After the source was away, and after it sent garbage."""
        async with made(bench, ASK) as backend:
            for fault in (SourceFault.AWAY, SourceFault.GARBAGE):
                await bench.misbehave(fault)
                await failure_of(backend)
                await bench.misbehave(SourceFault.NONE)
                assert (await fetched(backend)).on == {ASK}

    @case()
    async def test_changed_waits_while_nothing_changes(self, bench: FlagBackendBench) -> None:
        """A hint for nothing makes the sidecar fetch as fast as it may."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            waiting = asyncio.ensure_future(backend.changed())
            await beats()
            assert not waiting.done()
            waiting.cancel()
            await ends_soon(waiting, "changed()")

    @case(needs="push")
    async def test_changed_returns_after_a_change(self, bench: FlagBackendBench) -> None:
        """Also if the waiting began before."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            waiting = asyncio.ensure_future(backend.changed())
            await beats(1)
            await bench.set_flags(frozenset({OTHER}))
            await asyncio.wait_for(waiting, SOON)
            assert (await fetched(backend)).on == {OTHER}

    @case(needs="push")
    async def test_a_change_between_two_waits_is_not_lost(self, bench: FlagBackendBench) -> None:
        """The sidecar cancels a wait whenever its timer fires; the change comes just then."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            waiting = asyncio.ensure_future(backend.changed())
            await beats(1)
            waiting.cancel()
            await ends_soon(waiting, "changed()")
            await bench.set_flags(frozenset({OTHER}))
            await asyncio.wait_for(backend.changed(), SOON)

    @case(needs="hang")
    async def test_a_hung_fetch_ends_when_cancelled_and_the_next_one_works(self, bench: FlagBackendBench) -> None:
        """That is how a deadline arrives."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.HANG)
            hung = asyncio.ensure_future(backend.fetch())
            await beats()
            assert not hung.done()
            hung.cancel()
            await ends_soon(hung, "a cancelled fetch")
            await bench.misbehave(SourceFault.NONE)
            assert (await fetched(backend)).on == {ASK}

    @case(needs="hang")
    async def test_a_hanging_source_does_not_hold_up_the_event_loop(self, bench: FlagBackendBench) -> None:
        """The event loop stays responsive meanwhile."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.HANG)
            async with lively_loop():
                hung = asyncio.ensure_future(backend.fetch())
                await beats()
            hung.cancel()
            await ends_soon(hung, "a cancelled fetch")

    @case(needs="hang")
    async def test_close_ends_while_a_fetch_hangs(self, bench: FlagBackendBench) -> None:
        """A shutdown does not wait for a fetch."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.HANG)
            hung = asyncio.ensure_future(backend.fetch())
            await beats()
            await asyncio.wait_for(backend.close(), SOON)
            hung.cancel()
            await ends_soon(hung, "a fetch whose backend was closed")

    @case()
    async def test_close_may_be_called_twice(self, bench: FlagBackendBench) -> None:
        """A failed start may close what the shutdown closes again."""
        async with made(bench) as backend:
            await asyncio.wait_for(backend.close(), SOON)
            await asyncio.wait_for(backend.close(), SOON)

    @case()
    async def test_two_backends_are_independent(self, bench: FlagBackendBench) -> None:
        """Closing one leaves the other."""
        async with made(bench, ASK) as one, made(bench, ASK) as other:
            await one.close()
            assert (await fetched(other)).on == {ASK}

    @case()
    async def test_secrets_show_in_no_text(self, bench: FlagBackendBench) -> None:
        """Neither in the object's own nor in an error's."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.AWAY)
            texts = f"{backend!r} {backend} {await failure_of(backend)!r}"
            assert [secret for secret in bench.secrets if secret in texts] == []


@asynccontextmanager
async def made(bench: FlagBackendBench, *on: str) -> AsyncIterator[FlagBackend]:
    """Have the source with these flags on, and a backend on it."""
    async with bench.running():
        await bench.set_flags(frozenset(on))
        backend = bench.make()
        if isinstance(backend, NamedFlagBackend):
            backend.set_names(frozenset({ASK, OTHER}))
        try:
            yield backend
        finally:
            await bench.misbehave(SourceFault.NONE)
            await asyncio.wait_for(backend.close(), SOON)


async def fetched(backend: FlagBackend) -> FlagReport:
    """Fetch with a bound."""
    return await asyncio.wait_for(backend.fetch(), SOON)


async def failure_of(backend: FlagBackend) -> Exception | None:
    """Fetch and return what it raised; None if it answered, or did not end in time."""
    try:
        async with asyncio.timeout(SOON) as guard:
            await backend.fetch()
    except Exception as error:  # noqa: BLE001  a backend may raise what it likes
        return None if guard.expired() else error
    return None


__all__ = ["FlagBackendBench", "FlagBackendSuite", "SourceFault"]
