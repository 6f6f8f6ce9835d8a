"""The Grafana dashboards of `examples/dashboards`: no panel is empty, and no file differs from what makes it."""

import json

import pytest

from scripts.dashboards.contents import ALL
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement
from tests.support.scraped import DASHBOARDS, dashboard_queries
from tests.support.whole_demo import WholeDemo

pytestmark = pytest.mark.system


@requirement("PF1-D-51")
def test_no_panel_is_empty_after_the_demo(whole_demo: WholeDemo) -> None:
    """A real Prometheus scraped the demo's sidecar, and evaluated every query of every panel."""
    needs_tool("prometheus")
    assert set(whole_demo.panels) == set(dashboard_queries())
    assert [query for query, series in whole_demo.panels.items() if not series] == []


def test_the_files_are_what_the_script_writes() -> None:
    """`python -m scripts.dashboards` was run after the last change."""
    written = {file.name: file.read_text(encoding="utf-8") for file in DASHBOARDS.glob("*.json")}
    assert written == {f"{dashboard.name}.json": dashboard.to_json() for dashboard in ALL}


def test_every_panel_says_what_it_shows_and_reads_the_chosen_source() -> None:
    """Title, unit and description; the data source is a variable, for Grafana to ask."""
    for dashboard in ALL:
        built = json.loads(dashboard.to_json())
        panels = [panel for panel in built["panels"] if panel["type"] != "row"]
        assert panels
        for panel in panels:
            assert panel["title"], panel
            assert panel["description"], panel
            assert panel["fieldConfig"]["defaults"]["unit"], panel
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
