"""Changes a YAML file as text and, in parallel, as parsed data. At the end both must have the same content.

The text keeps comments and spelling. The data proves that the edited text has the intended content. `patch_draft.py`
uses it for the patch of a decommission.
"""

import copy
from typing import Any, Final

from sidecar.adapters.definitions_directory.cleanup.yaml_text import BY_HAND, YamlText
from sidecar.core.rollout.checkout_inspection import CheckoutRefused

BOM: Final = "\ufeff"


class CheckedYaml:
    """One YAML file that is changed.

    Args:
        text: the present content of the file.
        path: the path of the file, for messages.

    Attributes:
        data: the intended content; every scalar is a text.

    In all methods `steps` are the keys and indexes that lead to a value, e.g. `"agents", 2, "tools"`.
    """

    def __init__(self, text: str, path: str) -> None:
        # The byte order mark is kept, so that the patch contains only requested changes.
        self._mark = BOM if text.startswith(BOM) else ""
        self._file = YamlText(text.removeprefix(BOM), path)
        self._path = path
        self.data: Any = copy.deepcopy(self._file.data)

    def remove(self, *steps: str | int) -> None:
        """Remove the item of a list or the pair of a mapping at `steps`."""
        self._file.remove(*steps)
        del self._parent(steps)[steps[-1]]

    def replace(self, value: str, *steps: str | int) -> None:
        """Replace the scalar at `steps`."""
        self._file.replace(steps, value)
        self._parent(steps)[steps[-1]] = value

    def add_after(self, key: str, value: str, *steps: str | int) -> None:
        """Add the pair `key: value` after the pair at `steps`."""
        self._file.add_after(steps, key, value)
        self._parent(steps)[key] = value

    def comment(self, text: str, key: str, *entry: str | int) -> None:
        """Insert a comment above the pair `key` of the entry at `entry`."""
        self._file.comment(entry, key, text)

    def index(self, section: str, name: str) -> int | None:
        """Return the position of an entry in a section; None: the section has no entry with this id."""
        entries = self.data.get(section) or ()
        return next((number for number, each in enumerate(entries) if each.get("id") == name), None)

    def text(self) -> str:
        """Return the new content. Raises `CheckoutRefused` if the text does not parse to the intended data."""
        if self._file.data != self.data:
            raise CheckoutRefused(f"{self._path}: an entry {BY_HAND}")
        return self._mark + self._file.text

    def _parent(self, steps: tuple[str | int, ...]) -> Any:
        value = self.data
        for step in steps[:-1]:
            value = value[step]
        return value
