"""Cases for flag backends that switch flags, too: `FlagWriter`, beside contract `flag-backend/1`."""
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
    """Reads and switches."""


class FlagSwitchingSuite(Suite):
    """Subclass it with a fixture `bench` whose backends switch flags.

    The bench has a method `new_name`, which returns the name of a flag that the source has never had.
    """

    @case()
    async def test_a_flag_that_is_switched_is_seen_so(self, bench: FlagBackendBench) -> None:
        """On, then off again; the other flag stays as it is."""
        async with switching(bench, OTHER) as backend:
            await switched(backend, ASK, True)
            await until_on(backend, ASK, OTHER)
            await switched(backend, ASK, False)
            await until_on(backend, OTHER)

    @case()
    async def test_to_switch_what_is_so_already_changes_nothing(self, bench: FlagBackendBench) -> None:
        """A step that is repeated must not fail."""
        async with switching(bench, ASK) as backend:
            for name, on in ((ASK, True), (OTHER, False)):
                await switched(backend, name, on)
            await until_on(backend, ASK)

    @case()
    async def test_a_flag_that_is_not_there_is_created(self, bench: FlagBackendBench) -> None:
        """Off, as a promotion does it, and on at once."""
        async with switching(bench, ASK) as backend:
            for on in (False, True):
                name = new_name(bench)
                await switched(backend, name, on)
                await until_known(backend, name, on=on)
                await switched(backend, name, False)

    @case()
    async def test_a_switch_that_was_not_made_raises(self, bench: FlagBackendBench) -> None:
        """A kill that believes its flag is off would be wrong."""
        async with switching(bench, ASK) as backend:
            for fault in (SourceFault.AWAY, SourceFault.GARBAGE):
                await bench.misbehave(fault)
                assert await failure_of_switch(backend) is not None
                await bench.misbehave(SourceFault.NONE)
                await until_on(backend, ASK)

    @case()
    async def test_a_switch_that_hangs_ends_when_cancelled(self, bench: FlagBackendBench) -> None:
        """That is how the sidecar's deadline arrives."""
        async with switching(bench, ASK) as backend:
            await bench.misbehave(SourceFault.HANG)
            hung = asyncio.ensure_future(backend.switch(ASK, False, BY))
            await beats(1)
            hung.cancel()
            await ends_soon(hung, "a cancelled switch")

    @case()
    async def test_nothing_is_left_for_a_person_to_change(self, bench: FlagBackendBench) -> None:
        """An edit would keep the sidecar from switching."""
        async with switching(bench, ASK) as backend:
            assert (backend.edit_for(ASK, True), backend.edit_for(ASK, False)) == ("", "")

    @case()
    async def test_secrets_show_in_no_error(self, bench: FlagBackendBench) -> None:
        """It goes to a log."""
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
    """Have a backend that has fetched once."""
    async with made(bench, *on) as backend:
        assert isinstance(backend, FlagWriter), "the backend does not switch: it has no `switch` and `edit_for`"
        await fetched(backend)
        yield backend


async def switched(backend: SwitchingBackend, name: str, on: bool) -> None:
    """Switch with a bound."""
    await asyncio.wait_for(backend.switch(name, on, BY), SOON)


async def until_on(backend: SwitchingBackend, *names: str) -> None:
    """Fetch until exactly these are on; a source may take a moment to tell."""
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
    """Fetch until a flag is in the report as it should be."""
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
    """Switch a flag off and return what that raised."""
    try:
        async with asyncio.timeout(SOON) as guard:
            await backend.switch(ASK, False, BY)
    except Exception as error:  # noqa: BLE001  a backend may raise what it likes
        return None if guard.expired() else error
    return None


__all__ = ["FlagSwitchingSuite", "SwitchingBackend"]
