"""Changes a YAML file as text and, in parallel, as data; at the end both must have the same content.

The text keeps comments and spelling. The data proves that the edited text means what was intended.
"""

import copy
from typing import Any, Final

from sidecar.adapters.definitions_directory.cleanup.yaml_text import BY_HAND, YamlText
from sidecar.core.rollout.checkout_inspection import CheckoutRefused

BOM: Final = "\ufeff"


class CheckedYaml:
    """One YAML file that is changed.

    Args:
        text: the present text.
        path: for messages.

    Attributes:
        data: the intended content; every scalar as text.
    """

    def __init__(self, text: str, path: str) -> None:
        # Kept, so that the patch contains no change that was not requested.
        self._mark = BOM if text.startswith(BOM) else ""
        self._file = YamlText(text.removeprefix(BOM), path)
        self._path = path
        self.data: Any = copy.deepcopy(self._file.data)

    def remove(self, *steps: str | int) -> None:
        """Remove an item or a pair."""
        self._file.remove(*steps)
        del self._parent(steps)[steps[-1]]

    def replace(self, value: str, *steps: str | int) -> None:
        """Replace a plain value."""
        self._file.replace(steps, value)
        self._parent(steps)[steps[-1]] = value

    def add_after(self, key: str, value: str, *steps: str | int) -> None:
        """Add a pair after another pair."""
        self._file.add_after(steps, key, value)
        self._parent(steps)[key] = value

    def comment(self, text: str, key: str, *entry: str | int) -> None:
        """Insert a comment above a pair of an entry."""
        self._file.comment(entry, key, text)

    def index(self, section: str, name: str) -> int | None:
        """Return the position of an entry in a section; None: the section has no entry with this id."""
        entries = self.data.get(section) or ()
        return next((number for number, each in enumerate(entries) if each.get("id") == name), None)

    def text(self) -> str:
        """Return the new text. Raises `CheckoutRefused` if it does not have the intended content."""
        if self._file.data != self.data:
            raise CheckoutRefused(f"{self._path}: an entry {BY_HAND}")
        return self._mark + self._file.text

    def _parent(self, steps: tuple[str | int, ...]) -> Any:
        value = self.data
        for step in steps[:-1]:
            value = value[step]
        return value
