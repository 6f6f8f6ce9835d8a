"""The requirement catalogue: each id with the behaviour it stands for and where that is asked.

A test says which rows it proves with `@requirement("PC2-FR-7c")`; `unproven` holds a written reason for
each row that no test proves. `test_coverage` keeps the two complete and apart.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tests.requirements import pc1, pc2, pf1, sx
from tests.requirements.row import Row

__all__ = ["CATALOGUE", "Row", "by_id"]


def by_id(rows: Iterable[Row]) -> Mapping[str, Row]:
    """The rows under their ids, in the order given.

    Raises:
        ValueError: two rows have one id.
    """
    found: dict[str, Row] = {}
    for row in rows:
        if row.id in found:
            raise ValueError(f"tests/requirements: {row.id} is there twice; give each row an id of its own")
        found[row.id] = row
    return MappingProxyType(found)


CATALOGUE: Final = by_id(pc1.ROWS + pc2.ROWS + pf1.ROWS + sx.ROWS)
