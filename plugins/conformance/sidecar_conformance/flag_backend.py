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
        """If two flags are on, the report contains these two."""
        async with made(bench, ASK, OTHER) as backend:
            assert (await fetched(backend)).on == {ASK, OTHER}

    @case()
    async def test_a_report_has_the_contracts_types(self, bench: FlagBackendBench) -> None:
        """It has frozen sets of names, no name that is both on and off, and a revision that identifies the state."""
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
        """The flag that stays on remains in the report."""
        async with made(bench, ASK, OTHER) as backend:
            await fetched(backend)
            await bench.set_flags(frozenset({OTHER}))
            assert (await fetched(backend)).on == {OTHER}

    @case()
    async def test_no_flag_on_is_an_answer_and_no_failure(self, bench: FlagBackendBench) -> None:
        """If the source answers and every flag is off, the fetch returns an empty report."""
        async with made(bench) as backend:
            assert (await fetched(backend)).on == frozenset()

    @case()
    async def test_the_revision_stays_while_nothing_changes(self, bench: FlagBackendBench) -> None:
        """Otherwise the sidecar would treat every fetch as a change."""
        async with made(bench, ASK) as backend:
            assert (await fetched(backend)).revision == (await fetched(backend)).revision

    @case()
    async def test_the_revision_changes_with_the_content(self, bench: FlagBackendBench) -> None:
        """Switching on a further flag changes the revision."""
        async with made(bench, ASK) as backend:
            before = await fetched(backend)
            await bench.set_flags(frozenset({ASK, OTHER}))
            assert (await fetched(backend)).revision != before.revision

    @case()
    async def test_an_older_state_that_comes_back_is_seen(self, bench: FlagBackendBench) -> None:
        """If the source returns to an earlier state, the backend reports this state."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            await bench.set_flags(frozenset({OTHER}))
            await fetched(backend)
            await bench.set_flags(frozenset({ASK}))
            assert (await fetched(backend)).on == {ASK}

    @case()
    async def test_a_source_that_is_away_is_no_contact(self, bench: FlagBackendBench) -> None:
        """The fetch raises. An old report would hide its age, and an empty one would switch off all flags."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            await bench.misbehave(SourceFault.AWAY)
            assert await failure_of(backend) is not None

    @case()
    async def test_a_start_without_source_is_no_contact(self, bench: FlagBackendBench) -> None:
        """The first fetch raises, too, if the source is unavailable."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.AWAY)
            assert await failure_of(backend) is not None

    @case()
    async def test_garbage_is_no_contact(self, bench: FlagBackendBench) -> None:
        """A fetch of an unreadable answer raises: flags missing in a partial answer must not count as off."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            await bench.misbehave(SourceFault.GARBAGE)
            assert await failure_of(backend) is not None

    @case()
    async def test_the_same_object_recovers(self, bench: FlagBackendBench) -> None:
        """After an outage, and after an unreadable answer, the next fetch of this backend succeeds."""
        async with made(bench, ASK) as backend:
            for fault in (SourceFault.AWAY, SourceFault.GARBAGE):
                await bench.misbehave(fault)
                await failure_of(backend)
                await bench.misbehave(SourceFault.NONE)
                assert (await fetched(backend)).on == {ASK}

    @case()
    async def test_changed_waits_while_nothing_changes(self, bench: FlagBackendBench) -> None:
        """If `changed` returned without a change, the sidecar would fetch continuously."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            waiting = asyncio.ensure_future(backend.changed())
            await beats()
            assert not waiting.done()
            waiting.cancel()
            await ends_soon(waiting, "changed()")

    @case(needs="push")
    async def test_changed_returns_after_a_change(self, bench: FlagBackendBench) -> None:
        """A wait that began before the change returns after it."""
        async with made(bench, ASK) as backend:
            await fetched(backend)
            waiting = asyncio.ensure_future(backend.changed())
            await beats(1)
            await bench.set_flags(frozenset({OTHER}))
            await asyncio.wait_for(waiting, SOON)
            assert (await fetched(backend)).on == {OTHER}

    @case(needs="push")
    async def test_a_change_between_two_waits_is_not_lost(self, bench: FlagBackendBench) -> None:
        """The sidecar cancels a wait when its timer fires. The next wait must report a change made in between."""
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
        """The sidecar cancels a fetch at its deadline."""
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
        """The event loop stays responsive while a source hangs."""
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
        """Closing one backend does not affect the other."""
        async with made(bench, ASK) as one, made(bench, ASK) as other:
            await one.close()
            assert (await fetched(other)).on == {ASK}

    @case()
    async def test_secrets_show_in_no_text(self, bench: FlagBackendBench) -> None:
        """Neither the text of the backend nor the text of its exception contains a secret: both can reach a log."""
        async with made(bench, ASK) as backend:
            await bench.misbehave(SourceFault.AWAY)
            texts = f"{backend!r} {backend} {await failure_of(backend)!r}"
            assert [secret for secret in bench.secrets if secret in texts] == []


@asynccontextmanager
async def made(bench: FlagBackendBench, *on: str) -> AsyncIterator[FlagBackend]:
    """Start the source with these flags on, yield a backend, and close the backend."""
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
    """Return a report; fail after `SOON` seconds."""
    return await asyncio.wait_for(backend.fetch(), SOON)


async def failure_of(backend: FlagBackend) -> Exception | None:
    """Fetch and return the backend's exception; None if it returned or took longer than `SOON` seconds."""
    try:
        async with asyncio.timeout(SOON) as guard:
            await backend.fetch()
    except Exception as error:  # noqa: BLE001  the contract does not limit the class
        return None if guard.expired() else error
    return None


__all__ = ["FlagBackendBench", "FlagBackendSuite", "SourceFault"]
