"""Reads flags from a provider beside the event loop: providers block, and some hang.

Each fetch has a thread. A provider that fails, or whose fetch is given up, is ended and made anew: so an answer always
comes from one that is READY. STALE, ERROR, FATAL and NOT_READY are no contact; any event is a hint to fetch.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from openfeature.evaluation_context import EvaluationContext
from openfeature.event import ProviderEvent, ProviderEventDetails
from openfeature.provider import FeatureProvider

from sidecar.policy.protocols import FlagReport
from sidecar_flags_openfeature.evaluation import Questions
from sidecar_flags_openfeature.providers import Made, maker_of
from sidecar_flags_openfeature.settings import OpenFeatureSettings

T = TypeVar("T")

MOST_THREADS: Final = 4
"""Of one backend: a provider that hangs for ever keeps so many, and no more."""
NOT_READY: Final = (ProviderEvent.PROVIDER_STALE, ProviderEvent.PROVIDER_ERROR)
TO_CLOSE: Final = 1.0
"""Seconds that `close` waits for a provider to end."""


class ProviderNotReady(Exception):
    """The provider has told that its flags are old, or that it has none."""


class ProviderHangs(Exception):
    """As many threads as may be wait for the provider."""


class Session:
    """One provider from its beginning to its end; used by one thread at a time.

    Args:
        context: given to it at its beginning.
        hint: called from any thread when it tells something after its beginning.
    """

    def __init__(self, made: Made, context: EvaluationContext, hint: Callable[[], None]) -> None:
        self._provider, self._source_of = made
        self._context = context
        self._hint = hint
        self._begun = False
        self._trouble = ""
        self._source: object = None

    def begin(self) -> None:
        """Initialise it. Raises what it raises."""
        self._source = self._source_of()
        self._provider.attach(self._told)
        self._provider.initialize(self._context)
        self._begun = True

    def outdated(self) -> bool:
        """Say whether its source is another by now."""
        return self._source_of() != self._source

    def look(self, questions: Questions, names: frozenset[str]) -> FlagReport:
        """Ask about flags. Raises `ProviderNotReady`, and what the provider raises."""
        self._check()
        report = questions.report(self._provider, names)
        self._check()  # what it told meanwhile makes the values old
        return report

    def end(self) -> None:
        """End it, whatever state it is in."""
        self._begun = False
        with contextlib.suppress(Exception):
            self._provider.shutdown()
        with contextlib.suppress(Exception):
            self._provider.detach()

    def _check(self) -> None:
        if self._trouble:
            raise ProviderNotReady(self._trouble)

    def _told(self, provider: FeatureProvider, event: ProviderEvent, details: ProviderEventDetails) -> None:
        if event in NOT_READY:
            self._trouble = f"the provider is {event.name.removeprefix('PROVIDER_')}"
        elif event is ProviderEvent.PROVIDER_READY:
            self._trouble = ""
        if self._begun:
            self._hint()


class Looked(NamedTuple):
    """What a session has told; it can be asked again."""

    session: Session
    report: FlagReport


class OpenFeatureFlags:
    """The backend. The SDK's global registry is not used: two backends share nothing."""

    def __init__(self, settings: OpenFeatureSettings) -> None:
        """Make a provider to see that it can be made; connect to nothing.

        Raises:
            ValueError: it cannot be made.
        """
        self._make = maker_of(settings)
        self._context = EvaluationContext(attributes=dict(settings.context))
        try:
            Session(self._make(), self._context, lambda: None).end()
        except (TypeError, AttributeError) as error:
            raise ValueError(f"options do not fit the provider ({type(error).__name__})") from None
        self._questions = Questions(self._context, settings.reasons)
        self._names: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._one = asyncio.Lock()
        self._moved = asyncio.Event()
        self._threads = threading.Semaphore(MOST_THREADS)
        self._closed = False

    def set_names(self, names: frozenset[str]) -> None:
        """Ask for these from the next fetch on."""
        self._names = names

    async def fetch(self) -> FlagReport:
        """Ask the provider; raises what it raises, `ProviderNotReady`, `NothingClear` or `ProviderHangs`."""
        async with self._one:
            session, self._session = self._session, None
            self._moved.clear()
            loop, names = asyncio.get_running_loop(), self._names

            def hint() -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._moved.set)

            def work() -> Looked:
                return self._looked(session, names, hint)

            try:
                looked = await self._in_thread(work, lambda late: late.session.end())
            except ProviderHangs:
                self._session = session  # it was not asked
                raise
            self._session = looked.session
        if self._closed:
            await self.close()
        return looked.report

    async def changed(self) -> None:
        """Return when the provider has told something since the last fetch."""
        await self._moved.wait()

    async def close(self) -> None:
        """End the provider; one that hangs is left behind."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(TimeoutError, ProviderHangs):
                async with asyncio.timeout(TO_CLOSE):
                    await self._in_thread(session.end, lambda _: None)

    def _looked(self, session: Session | None, names: frozenset[str], hint: Callable[[], None]) -> Looked:
        if session is not None and session.outdated():
            session.end()
            session = None
        new = session is None
        session = session or Session(self._make(), self._context, hint)
        try:
            if new:
                session.begin()
            return Looked(session, session.look(self._questions, names))
        except BaseException:
            session.end()
            raise

    async def _in_thread(self, work: Callable[[], T], too_late: Callable[[T], None]) -> T:
        """Run in a thread that a shutdown does not wait for.

        Args:
            work: what is run.
            too_late: receives the result if no caller waits any more.
        """
        if not self._threads.acquire(blocking=False):
            raise ProviderHangs(f"{MOST_THREADS} fetches wait for the provider")
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if waiting.done():
                if error is None:
                    threading.Thread(target=too_late, args=(result,), daemon=True).start()
            elif error is None:
                waiting.set_result(result)  # type: ignore[arg-type]  # it is what `work` returned
            else:
                waiting.set_exception(error if isinstance(error, Exception) else ProviderNotReady(repr(error)))

        def run() -> None:
            result: T | None = None
            failed: BaseException | None = None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  even SystemExit is the provider's own failure only
                failed = error
            finally:
                self._threads.release()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, result, failed)

        threading.Thread(target=run, name="flags-openfeature", daemon=True).start()
        return await waiting
