"""Cases for flag backends that also switch flags: the interface `FlagWriter`, in addition to `flag-backend/1`."""
# ruff: noqa: S101  the cases are tests

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from sidecar.policy.protocols import FlagBackend, FlagReport, FlagWriter
from sidecar_conformance.flag_backend import ASK, OTHER, fetched, made
from sidecar_conformance.flag_bench import FlagBackendBench, SourceFault
from sidecar_conformance.suite import SOON, Suite, beats, case, ends_soon

BY: Final = "ada@example"


class SwitchingBackend(FlagBackend, FlagWriter, Protocol):
    """A flag backend that reads and switches flags."""


class FlagSwitchingSuite(Suite):
    """Subclass it with a fixture `bench` whose backends switch flags.

    The bench has a method `new_name`, which returns the name of a flag that the source has never had.
    """

    @case()
    async def test_a_flag_that_is_switched_is_seen_so(self, bench: FlagBackendBench) -> None:
        """After a switch on and a switch off, the report shows the new state; other flags do not change."""
        async with switching(bench, OTHER) as backend:
            await switched(backend, ASK, True)
            await until_on(backend, ASK, OTHER)
            await switched(backend, ASK, False)
            await until_on(backend, OTHER)

    @case()
    async def test_to_switch_what_is_so_already_changes_nothing(self, bench: FlagBackendBench) -> None:
        """A repeated step must not fail: switching a flag to its present state succeeds."""
        async with switching(bench, ASK) as backend:
            for name, on in ((ASK, True), (OTHER, False)):
                await switched(backend, name, on)
            await until_on(backend, ASK)

    @case()
    async def test_a_flag_that_is_not_there_is_created(self, bench: FlagBackendBench) -> None:
        """A missing flag can be created both off, as a promotion does, and on."""
        async with switching(bench, ASK) as backend:
            for on in (False, True):
                name = new_name(bench)
                await switched(backend, name, on)
                await until_known(backend, name, on=on)
                await switched(backend, name, False)

    @case()
    async def test_a_switch_that_was_not_made_raises(self, bench: FlagBackendBench) -> None:
        """Otherwise a kill would wrongly report that its flag is off."""
        async with switching(bench, ASK) as backend:
            for fault in (SourceFault.AWAY, SourceFault.GARBAGE):
                await bench.misbehave(fault)
                assert await failure_of_switch(backend) is not None
                await bench.misbehave(SourceFault.NONE)
                await until_on(backend, ASK)

    @case()
    async def test_a_switch_that_hangs_ends_when_cancelled(self, bench: FlagBackendBench) -> None:
        """The sidecar cancels a switch at its deadline."""
        async with switching(bench, ASK) as backend:
            await bench.misbehave(SourceFault.HANG)
            hung = asyncio.ensure_future(backend.switch(ASK, False, BY))
            await beats(1)
            hung.cancel()
            await ends_soon(hung, "a cancelled switch")

    @case()
    async def test_nothing_is_left_for_a_person_to_change(self, bench: FlagBackendBench) -> None:
        """`edit_for` must be empty: otherwise the sidecar asks a person instead of switching the flag itself."""
        async with switching(bench, ASK) as backend:
            assert (backend.edit_for(ASK, True), backend.edit_for(ASK, False)) == ("", "")

    @case()
    async def test_secrets_show_in_no_error(self, bench: FlagBackendBench) -> None:
        """The text of the exception must contain no secret, because the sidecar logs it."""
        async with switching(bench, ASK) as backend:
            await bench.misbehave(SourceFault.AWAY)
            text = repr(await failure_of_switch(backend))
            assert [secret for secret in bench.secrets if secret in text] == []


def new_name(bench: FlagBackendBench) -> str:
    """Return a name that the source has never had."""
    found: str = bench.new_name()  # type: ignore[attr-defined]  # only benches of this suite have it
    return found


@asynccontextmanager
async def switching(bench: FlagBackendBench, *on: str) -> AsyncIterator[SwitchingBackend]:
    """Yield a backend that has fetched once."""
    async with made(bench, *on) as backend:
        assert isinstance(backend, FlagWriter), "the backend does not switch: it has no `switch` and `edit_for`"
        await fetched(backend)
        yield backend


async def switched(backend: SwitchingBackend, name: str, on: bool) -> None:
    """Switch a flag; fail after `SOON` seconds."""
    await asyncio.wait_for(backend.switch(name, on, BY), SOON)


async def until_on(backend: SwitchingBackend, *names: str) -> None:
    """Fetch until exactly these flags are on, because a source may report late; fail after `SOON` seconds."""
    found: frozenset[str] = frozenset()
    try:
        async with asyncio.timeout(SOON):
            while True:
                found = (await backend.fetch()).on
                if found == set(names):
                    return
                await beats(1)
    except TimeoutError:
        raise AssertionError(f"on are {sorted(found)}, not {sorted(names)}") from None


async def until_known(backend: SwitchingBackend, name: str, *, on: bool) -> None:
    """Fetch until the report has a flag in the given state; fail after `SOON` seconds."""
    try:
        async with asyncio.timeout(SOON):
            while True:
                if name in _seen(await backend.fetch(), on=on):
                    return
                await beats(1)
    except TimeoutError:
        raise AssertionError(f"{name} is not seen {'on' if on else 'off'}") from None


def _seen(report: FlagReport, *, on: bool) -> frozenset[str]:
    return report.on if on else report.off


async def failure_of_switch(backend: SwitchingBackend) -> Exception | None:
    """Switch a flag off and return the exception; None if it succeeded or took longer than `SOON` seconds."""
    try:
        async with asyncio.timeout(SOON) as guard:
            await backend.switch(ASK, False, BY)
    except Exception as error:  # noqa: BLE001  a backend may raise what it likes
        return None if guard.expired() else error
    return None


__all__ = ["FlagSwitchingSuite", "SwitchingBackend"]
