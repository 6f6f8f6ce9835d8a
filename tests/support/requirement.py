"""Which requirement rows a test proves."""

from typing import Final

import pytest

from tests.requirements import CATALOGUE

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
    if unknown := [one for one in ids if one not in CATALOGUE]:
        msg = f"not in the catalogue of tests/requirements: {', '.join(unknown)}"
        raise ValueError(msg)
    return pytest.mark.requirement(*ids)
