"""PF1, Sub-Agent Lifecycle: 176 rows."""

from typing import Final

from tests.requirements import pf1_behaviour, pf1_design

ROWS: Final = pf1_behaviour.ROWS + pf1_design.ROWS
