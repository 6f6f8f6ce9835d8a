"""Reads flags from an OpenFeature provider in threads, because providers block, and some hang.

Each fetch uses a thread. If a provider fails or its fetch is cancelled, the provider is shut down and replaced by a new
one, so that answers only come from a provider in the state READY. In the states STALE, ERROR, FATAL and NOT_READY, a
fetch raises. Every event of a provider lets the sidecar fetch.
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
"""Maximum number of threads of one backend, which limits the threads that a hanging provider occupies."""
NOT_READY: Final = (ProviderEvent.PROVIDER_STALE, ProviderEvent.PROVIDER_ERROR)
TO_CLOSE: Final = 1.0
"""Maximum seconds that `close` waits for the shutdown of a provider."""


class ProviderNotReady(Exception):
    """The provider has reported that its flags are stale, or that it has an error."""


class ProviderHangs(Exception):
    """The maximum number of threads already waits for the provider."""


class Session:
    """One provider, from its initialisation to its shutdown. At most one thread uses it at the same time.

    Args:
        made: the provider, and a function that identifies its source.
        context: the evaluation context for the provider's initialisation.
        hint: called for each event of the provider after its initialisation, from any thread.
    """

    def __init__(self, made: Made, context: EvaluationContext, hint: Callable[[], None]) -> None:
        self._provider, self._source_of = made
        self._context = context
        self._hint = hint
        self._begun = False
        self._trouble = ""
        self._source: object = None

    def begin(self) -> None:
        """Initialise the provider. Raises the provider's exceptions."""
        self._source = self._source_of()
        self._provider.attach(self._told)
        self._provider.initialize(self._context)
        self._begun = True

    def outdated(self) -> bool:
        """Return whether the source of the provider has changed since `begin`."""
        return self._source_of() != self._source

    def look(self, questions: Questions, names: frozenset[str]) -> FlagReport:
        """Return a report of the named flags. Raises `ProviderNotReady`, and the provider's exceptions."""
        self._check()
        report = questions.report(self._provider, names)
        self._check()  # an event during the evaluation can make the values stale
        return report

    def end(self) -> None:
        """Shut the provider down, in any state. Raises nothing."""
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
    """A report, and the session that made it, which can be used again."""

    session: Session
    report: FlagReport


class OpenFeatureFlags:
    """The flag backend `openfeature`. It does not use the SDK's global registry, so two backends share nothing."""

    def __init__(self, settings: OpenFeatureSettings) -> None:
        """Create a provider to check the settings, without connecting it.

        Raises:
            ValueError: the provider cannot be created.
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
        """Set the names of the flags that fetches evaluate from now on."""
        self._names = names

    async def fetch(self) -> FlagReport:
        """Return a report of the flags.

        Raises:
            ProviderNotReady, NothingClear, ProviderHangs: there is no usable answer.
            Exception: an exception of the provider.
        """
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
                self._session = session  # no thread used it, so it can be used again
                raise
            self._session = looked.session
        if self._closed:
            await self.close()
        return looked.report

    async def changed(self) -> None:
        """Wait for an event of the provider since the last fetch."""
        await self._moved.wait()

    async def close(self) -> None:
        """Shut the provider down; after `TO_CLOSE` seconds, a hanging provider is abandoned."""
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
        """Run a function in a daemon thread, which does not delay the end of the process, and return its result.

        Args:
            work: the function.
            too_late: called with the result if the caller was cancelled.

        Raises:
            ProviderHangs: all threads are in use.
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
