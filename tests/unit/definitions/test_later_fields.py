"""Fields that came after the first version: a card that leaves them out is the card that it was."""

from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.core.definitions.cards.digest import LATER, canonical
from tests.support.builders import a_card


@pytest.mark.parametrize("name", LATER)
def test_a_field_that_came_later_is_in_no_digest_while_it_has_its_default(name: str) -> None:
    """Kept revisions stay provable; saying anything but the default is another content."""
    definition = a_card("shop").definition
    holder = next(each for each in (definition, definition.limits) if hasattr(each, name))
    other: dict[str, Any] = {name: 7 if LATER[name] is None else not LATER[name]}
    changed = replace(holder, **other)

    assert getattr(holder, name) == LATER[name]
    assert f'"{name}"' not in canonical(definition)
    assert f'"{name}"' in canonical(changed)
