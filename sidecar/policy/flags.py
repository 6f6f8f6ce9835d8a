"""The interfaces of flag backends: required methods and optional ones."""

from typing import Protocol, runtime_checkable

from sidecar.core.flag_states import FlagReport


class FlagBackend(Protocol):
    """Reports the states of flags. Decisions never wait for it; they read its last report (PF1-NFR-4b, TN-8)."""

    async def fetch(self) -> FlagReport:
        """Return the present state of the flags.

        After an exception the sidecar continues to use the last report, which becomes stale after a configured time.
        """

    async def changed(self) -> None:
        """Wait until a flag may have changed, perhaps for ever. The sidecar also fetches periodically."""

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


@runtime_checkable
class NamedFlagBackend(Protocol):
    """For a flag backend that cannot list its flags."""

    def set_names(self, names: frozenset[str]) -> None:
        """Store the names of all flags of this backend that the sidecar uses. Called before each fetch.

        The next report lists in `FlagReport.asked` the names for which it has answers. Neither waits nor raises.
        """
        ...


@runtime_checkable
class FlagWriter(Protocol):
    """Switches flags for operators. Source: PF1-D-7, PF1-D-20."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag, and create it if it does not exist. Has no effect if the flag already has this state.

        Args:
            name: the name of the flag.
            on: true: on for all users; false: off for all users.
            by: the operator who requested it, for the backend's own log.

        Raises:
            StoreUnavailable: the flag was not switched. Any other exception of a plugin counts as this one.
        """
        ...

    def edit_for(self, name: str, on: bool) -> str:
        """Return one line that tells a person what to edit; empty if `switch` can do it. Does not wait."""
        ...
