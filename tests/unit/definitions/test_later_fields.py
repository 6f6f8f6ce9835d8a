"""Fields that came after the first version: a card that leaves them out is the card that it was."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import ToolEntry, ToolOperation
from sidecar.core.definitions.cards.digest import LATER, canonical
from sidecar.core.identifiers import ToolId
from tests.support.builders import a_card

DEFINITION: Final = a_card("shop").definition
TOOL: Final = ToolEntry(ToolId("book"), "Books a table.")
OTHERWISE: Final[list[tuple[Any, str, object]]] = [
    (DEFINITION, "allow_empty_answer", True),
    (DEFINITION, "verbatim_text", True),
    (DEFINITION.limits, "calls_per_user_per_day", 7),
    (TOOL, "operation", ToolOperation.READ),
    (TOOL, "max_response_bytes", 4096),
]


@pytest.mark.parametrize(("entry", "name", "other"), OTHERWISE, ids=[name for _, name, _ in OTHERWISE])
def test_a_field_that_came_later_is_in_no_digest_while_it_has_its_default(entry: Any, name: str, other: object) -> None:
    """Kept revisions stay provable; saying anything but the default is another content."""
    changed = replace(entry, **{name: other})

    assert getattr(entry, name) == LATER[name]
    assert f'"{name}"' not in canonical(entry)
    assert f'"{name}"' in canonical(changed)


def test_every_such_field_is_shown_here() -> None:
    """None was forgotten."""
    assert {name for _, name, _ in OTHERWISE} == set(LATER)
