"""Which requirement rows a test proves."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

import pytest

MOST_IDS: Final = 4
"""A test that proves more rows than this proves none of them clearly."""


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test with the rows of the catalogue that it proves.

    Args:
        ids: 1 to 4 ids such as `PC2-AC-4a`. FR and AC ids belong on tests through a public RPC or the CLI.

    Raises:
        ValueError: no id, too many, one twice, or one that `tests/requirements` does not know. As the marks are made
            when the module is imported, a misspelt id stops the whole module.
    """
    if not 1 <= len(ids) <= MOST_IDS:
        msg = f"a test proves 1 to {MOST_IDS} requirement rows, this one names {len(ids)}: {', '.join(ids)}"
        raise ValueError(msg)
    if len(set(ids)) < len(ids):
        msg = f"a requirement row is named twice: {', '.join(ids)}"
        raise ValueError(msg)
    known = _known_ids()
    unknown = [one for one in ids if known is not None and one not in known]
    if unknown:
        msg = f"not in the catalogue of tests/requirements: {', '.join(unknown)}"
        raise ValueError(msg)
    return pytest.mark.requirement(*ids)


def _known_ids() -> frozenset[str] | None:
    if find_spec("tests.requirements") is None:
        return None
    return frozenset(import_module("tests.requirements").CATALOGUE)
