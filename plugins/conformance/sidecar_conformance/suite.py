"""Parts that all suites share: cases, abilities, time limits, and a check that the event loop is not blocked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

SECONDS: Final = 20.0
"""Maximum seconds of one case."""
SOON: Final = 5.0
"""Maximum seconds of one operation, e.g. a call or a cancellation; generous, for a busy machine."""
STALL: Final = 1.0
"""Maximum seconds for which a plugin may block the event loop."""
BEAT: Final = 0.02
"""Seconds of one beat, the step in which cases wait."""

P = ParamSpec("P")
NEEDS: Final = "conformance_needs"


class Suite:
    """The base class of all suites of cases. Plugin authors subclass one of the suites instead.

    Attributes:
        abilities: optional ability of a plugin or its bench to the meaning of this ability.
        closed: the abilities that the plugin or its bench does not have; pytest does not collect their cases.
        event_loop: the class of the event loop in which cases run; None: asyncio's default.
    """

    abilities: ClassVar[Mapping[str, str]] = {}
    closed: ClassVar[frozenset[str]] = frozenset()
    event_loop: ClassVar[type[asyncio.AbstractEventLoop] | None] = None

    def __init_subclass__(cls) -> None:
        """Remove the cases of the abilities in `closed`.

        Raises:
            TypeError: `closed` names an unknown ability.
        """
        unknown = sorted(cls.closed - set(cls.abilities))
        if unknown:
            raise TypeError(f"{cls.__name__}.closed: no such ability {unknown}; there are {sorted(cls.abilities)}")
        for name in dir(cls):
            if getattr(getattr(cls, name), NEEDS, None) in cls.closed:
                setattr(cls, name, None)


SuiteT = TypeVar("SuiteT", bound=Suite)


def case(
    needs: str | None = None,
) -> Callable[[Callable[Concatenate[SuiteT, P], Coroutine[Any, Any, None]]], Callable[Concatenate[SuiteT, P], None]]:
    """Return a decorator that makes an async method a test, which runs in its own event loop for at most `SECONDS`.

    Args:
        needs: the ability that the case requires; None: the case applies to every plugin.
    """

    def made(
        work: Callable[Concatenate[SuiteT, P], Coroutine[Any, Any, None]],
    ) -> Callable[Concatenate[SuiteT, P], None]:
        @wraps(work)
        def test(self: SuiteT, /, *args: P.args, **kwargs: P.kwargs) -> None:
            with asyncio.Runner(loop_factory=self.event_loop) as runner:
                runner.run(asyncio.wait_for(work(self, *args, **kwargs), SECONDS))

        setattr(test, NEEDS, needs)
        return test

    return made


def case_names(suite: type[Suite]) -> frozenset[str]:
    """Return the names of a suite's cases, without those of closed abilities."""
    return frozenset(name for name in dir(suite) if hasattr(getattr(suite, name), NEEDS))


def failures_of(suite: type[Suite], bench_of: Callable[[], object]) -> Mapping[str, BaseException]:
    """Run every case with a new bench, without pytest, and return the exceptions of failed cases, by name of the case.

    Tests of the suites use this function. It also helps to examine a plugin interactively.
    """
    failed: dict[str, BaseException] = {}
    for name in sorted(case_names(suite)):
        try:
            getattr(suite, name)(suite(), bench_of())
        except Exception as error:  # noqa: BLE001  whatever it is, the case has failed
            failed[name] = error
    return failed


async def beats(count: int = 5) -> None:
    """Wait for `count` beats of `BEAT` seconds, so that other tasks can progress."""
    for _ in range(count):
        await asyncio.sleep(BEAT)


@asynccontextmanager
async def lively_loop() -> AsyncIterator[None]:
    """Fail if code inside the block blocks the event loop for longer than `STALL` seconds."""
    loop = asyncio.get_running_loop()
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = loop.time()
            await asyncio.sleep(BEAT)
            longest = max(longest, loop.time() - before)

    beating = asyncio.ensure_future(beat())
    await asyncio.sleep(0)
    try:
        yield
        await asyncio.sleep(BEAT)
    finally:
        beating.cancel()
    if longest > STALL:
        raise AssertionError(f"the event loop stood still for {longest:.1f} s: something blocks instead of awaiting")


async def ends_soon(task: "asyncio.Task[Any]", what: str) -> None:
    """Fail unless `task` ends within `SOON` seconds, however it ends."""
    done, _ = await asyncio.wait({task}, timeout=SOON)
    if not done:
        raise AssertionError(f"{what} has not ended within {SOON:g} s")
