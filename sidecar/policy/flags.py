"""The interfaces of flag backends: required methods and optional ones."""

from typing import Protocol, runtime_checkable

from sidecar.core.flag_states import FlagReport


class FlagBackend(Protocol):
    """Brings flag states; decisions never wait for it, they read the last report. Source: PF1-NFR-4b, TN-8."""

    async def fetch(self) -> FlagReport:
        """Return the present state, or raise: then the last report ages and goes stale after the configured time."""

    async def changed(self) -> None:
        """Return when a fetch would give something new; may wait for ever. The sidecar also fetches on a timer."""

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


@runtime_checkable
class NamedFlagBackend(Protocol):
    """A flag backend that cannot list its flags; optional, beside `FlagBackend`."""

    def set_names(self, names: frozenset[str]) -> None:
        """Take the names of all flags that the sidecar uses of this backend; called before each fetch.

        A report then names in `asked` what it answers about. Neither waits nor raises.
        """
        ...


@runtime_checkable
class FlagWriter(Protocol):
    """Switches flags; optional, beside `FlagBackend`. Source: PF1-D-7, PF1-D-20."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Set a flag, creating it if need be; setting what is set changes nothing.

        Args:
            name: of the flag.
            on: for all users, or for none.
            by: who asked for it, for the backend's own record.

        Raises:
            StoreUnavailable: the flag is not as asked; of a plugin, whatever else it raises counts as that.
        """
        ...

    def edit_for(self, name: str, on: bool) -> str:
        """Say in one line what a person has to change; empty if `switch` does it. From memory."""
        ...
