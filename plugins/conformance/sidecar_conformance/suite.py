"""What all suites share: cases, abilities, bounds, and a watch over the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

SECONDS: Final = 20.0
"""Longest that one case may take."""
SOON: Final = 5.0
"""Seconds within which something must end that was told to; generous, for a busy machine."""
STALL: Final = 1.0
"""Seconds for which nothing may hold the event loop up."""
BEAT: Final = 0.02

P = ParamSpec("P")
NEEDS: Final = "conformance_needs"


class Suite:
    """A set of cases. Subclass one of the suites, not this.

    Attributes:
        abilities: each optional ability, with what it means.
        closed: the abilities that this plugin does not have; their cases are not collected.
        event_loop: the kind of loop that cases run in; None: asyncio's usual one.
    """

    abilities: ClassVar[Mapping[str, str]] = {}
    closed: ClassVar[frozenset[str]] = frozenset()
    event_loop: ClassVar[type[asyncio.AbstractEventLoop] | None] = None

    def __init_subclass__(cls) -> None:
        """Take away the cases that do not apply.

        Raises:
            TypeError: `closed` names an ability that the suite does not know.
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
    """Make an async method a test that runs in an event loop of its own, within `SECONDS`.

    Args:
        needs: ability without which the case does not apply.
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
    """Run every case against a new bench each, outside pytest, and return those that fail, by name.

    For tests of the suites themselves, and for looking at a plugin at a prompt.
    """
    failed: dict[str, BaseException] = {}
    for name in sorted(case_names(suite)):
        try:
            getattr(suite, name)(suite(), bench_of())
        except Exception as error:  # noqa: BLE001  whatever it is, the case has failed
            failed[name] = error
    return failed


async def beats(count: int = 5) -> None:
    """Let the event loop turn for a while, so that what is going to happen by itself happens."""
    for _ in range(count):
        await asyncio.sleep(BEAT)


@asynccontextmanager
async def lively_loop() -> AsyncIterator[None]:
    """Fail if anything inside the block holds the event loop up for longer than `STALL` seconds."""
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
