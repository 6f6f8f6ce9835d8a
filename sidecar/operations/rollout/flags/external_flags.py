"""Flags of a backend that the sidecar cannot write: a person switches them where they are kept."""

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable


class FlagsKeptElsewhere(Struct, frozen=True):
    """In the place of a writer.

    Attributes:
        backend: name of the flag backend.
    """

    backend: str

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: the backend offers no writing."""
        raise StoreUnavailable(f"the sidecar does not write the flags of `{self.backend}`; {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return what has to be done, and where."""
        return f"{self.backend}: switch {name} {'on' if on else 'off'}"
