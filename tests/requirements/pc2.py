"""PC2, Runtime Discovery and Sub-Agent Execution: 177 rows."""

from typing import Final

from tests.requirements import pc2_behaviour, pc2_design

ROWS: Final = pc2_behaviour.ROWS + pc2_design.ROWS
