"""Flags of a backend that the sidecar cannot write: a person switches them where they are kept."""

from sidecar.core.errors import StoreUnavailable


class FlagsKeptElsewhere:
    """In the place of a writer.

    Args:
        backend: name of the flag backend.
    """

    def __init__(self, backend: str) -> None:
        """Keep the name."""
        self._backend = backend

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: the backend offers no writing."""
        raise StoreUnavailable(f"the sidecar does not write the flags of `{self._backend}`; {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return what has to be done, and where."""
        return f"{self._backend}: switch {name} {'on' if on else 'off'}"
