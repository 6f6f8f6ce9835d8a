"""What `sidecar plugins list` shows."""

import json

from sidecar.cli.plugins.listing import as_json, as_table, exit_code_of, plugin_rows
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.selection import PolicyNames, PolicySettings
from tests.plugins.distributions import GOOD, SitePackages
from tests.unit.policy.offered import PLATFORM, Offering

BUILT_INS = (Offering(*PLATFORM),)


def test_the_list_shows_every_plugin_with_its_state(site: SitePackages) -> None:
    """Active, available, broken with its reason below, and not selected."""
    site.install("flags-good", GOOD.format(name="good"), entry="good")
    site.install("flags-bad", "raise OSError('no licence')\n", entry="bad", version="0.3")
    site.install("rogue", GOOD.format(name="rogue"), entry="rogue", version="6.6")

    rows = plugin_rows(BUILT_INS, PluginSelection(("good", "bad")), PolicySettings(), {})

    assert as_table(rows) == (
        "NAME        KIND            CONTRACT          FROM            STATE         SUMMARY\n"
        "rest        connector       connector/1       built in        active        Connector rest\n"
        "in_process  episode-memory  episode-memory/1  built in        active        Memory in_process\n"
        "good        flag-backend    flag-backend/1    flags-good 1.0  available     Made\n"
        "memory      flag-backend    flag-backend/1    built in        active        Flags memory\n"
        "grpc        runner          runner/1          built in        active        Runner grpc\n"
        "bad         -               -                 flags-bad 0.3   broken\n"
        "    importing the plugin `bad` of flags-bad 0.3 failed with OSError: no licence\n"
        "      where: entry point `bad` = flags_bad of flags-bad 0.3\n"
        "      what to do: repair or update that distribution, or take it out of plugins.enabled\n"
        "rogue       -               -                 rogue 6.6       not selected\n"
    )
    assert exit_code_of(rows) == 1
    assert not site.ran("rogue")


def test_the_json_list_has_the_fields_of_a_row(site: SitePackages) -> None:
    """For scripts."""
    site.install("flags-good", GOOD.format(name="good"), entry="good")

    rows = plugin_rows(BUILT_INS, PluginSelection(("good",)), PolicySettings(PolicyNames(flags="good")), {})

    listed = {row["name"]: row for row in json.loads(as_json(rows))}
    assert listed["good"] == {
        "name": "good",
        "kind": "flag-backend",
        "contract": "flag-backend/1",
        "distribution": "flags-good",
        "version": "1.0",
        "state": "active",
        "summary": "Made",
        "error": "",
    }
    assert listed["memory"]["state"] == "available"
    assert exit_code_of(rows) == 0


def test_the_list_works_while_the_policy_names_what_is_not_there(site: SitePackages) -> None:
    """It is what one looks at to find out why the sidecar does not start."""
    rows = plugin_rows(BUILT_INS, PluginSelection(), PolicySettings(PolicyNames(flags="gone")), {}, offers=())

    assert {str(row.state) for row in rows} == {"available"}
