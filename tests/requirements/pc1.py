"""PC1, Agent Composition: 165 rows."""

from typing import Final

from tests.requirements import pc1_behaviour, pc1_design

ROWS: Final = pc1_behaviour.ROWS + pc1_design.ROWS
