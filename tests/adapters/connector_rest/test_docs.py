"""`docs/data-services.md` names everything that there is, and nothing else."""

import json
import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from examples.ccs.envelopes import EnricherRequest, envelope_of
from examples.ccs.faults import Fault, FaultKind
from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.core.envelopes import WithholdReason

PAGE: Final = (Path(__file__).parents[3] / "docs" / "data-services.md").read_text()


def first_column(heading: str) -> list[str]:
    """Return the names in the first column of the table whose head begins with `heading`."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", table, flags=re.MULTILINE)


def test_every_fault_and_every_setting_is_in_its_table() -> None:
    """The tables of switches and settings; defaults as they are."""
    assert first_column("`kind`") == [kind.value for kind in FaultKind]
    assert sorted(first_column("setting")) == sorted(RestSettings.SETTINGS)
    for name, info in RestSettings.SETTINGS.items():
        shown = {None: "none", False: "false"}.get(info.default, str(info.default))
        assert f"| `{name}` | {shown} |" in PAGE


@pytest.mark.parametrize("reason", list(WithholdReason))
def test_every_reason_is_explained(reason: WithholdReason) -> None:
    """Each reason for withholding occurs in the section on checks."""
    checks = PAGE.partition("## What is checked")[2].partition("## Declaring a tool")[0]

    assert f"`{reason.value}`" in checks


def test_the_request_and_the_envelope_are_shown_as_they_are() -> None:
    """The two JSON examples: the first is a request, the second has the members of its answer."""
    shown_request, shown_envelope = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    request = msgspec.json.decode(shown_request, type=EnricherRequest)

    assert set(json.loads(shown_request)) == set(request.__struct_fields__)
    shown, real = json.loads(shown_envelope), envelope_of(request, request.principal)
    assert set(shown) == set(real)
    assert {name: shown[name] for name in shown if name != "payload"} == {
        name: real[name] for name in real if name != "payload"
    }


def test_the_switch_that_is_shown_is_one() -> None:
    """The body of the curl command that sets a switch."""
    (body,) = re.findall(r"/admin/faults -d '(.*?)'", PAGE)

    assert msgspec.json.decode(body, type=Fault).kind is FaultKind.WRONG_PRINCIPAL
