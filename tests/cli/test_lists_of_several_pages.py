"""Commands and console read all pages of a list: a slot on the second one is as good as one on the first."""

from typing import Any, Final

from google.protobuf.message import Message

from sidecar.cli.console.sidecars import SidecarConnection, Sidecars
from sidecar.cli.subagent.client import READING, CannotOperate, OperatorClient, OperatorExit, SidecarAddress
from sidecar.cli.subagent.step_target import StepOptions, find_target
from subagents.lifecycle.v1 import reading_pb2 as pb

TARGET: Final = "unix:/nothing/listens"


def page_of(request: Any) -> pb.ListRolloutsResponse:
    """Return one of two pages, each with one slot."""
    number = int(request.page_token or 0)
    definition = pb.DefinitionStatus(definition_id=f"shop-{number}", digest=f"sha256:{number}", active=True)
    slot = pb.SlotStatus(slot=f"slot-{number}", definitions=[definition])
    return pb.ListRolloutsResponse(slots=[slot], next_page_token="" if number else "1")


class PagedClient(OperatorClient):
    """Answers without a sidecar."""

    def ask(self, method: str, request: Message, name: str = "", seconds: float = READING) -> Any:
        """Return a page."""
        return page_of(request)


class PagedConnection(SidecarConnection):
    """Answers without a sidecar, and is lost after as many pages as it is given."""

    def __init__(self, pages: int) -> None:
        super().__init__(TARGET, None)
        self._left = pages

    async def ask(self, token: str, method: str, request: Message, name: str = "", seconds: float = READING) -> Any:
        """Return a page."""
        self._left -= 1
        if self._left < 0:
            raise CannotOperate("gone", OperatorExit.NOT_ASKED, uncertain=True)
        return page_of(request)


def test_a_step_finds_its_definition_on_the_second_page() -> None:
    """Of a sidecar with more slots than a page has."""
    with PagedClient(SidecarAddress((TARGET,), "token"), TARGET) as client:
        found = find_target(client, StepOptions("shop-1", "reason"))
    assert found.slot.slot == "slot-1"


async def test_a_sidecar_that_is_lost_between_two_pages_costs_no_slot() -> None:
    """The next one is asked from the first page on."""
    sidecars = Sidecars([TARGET], None)
    sidecars.all = [PagedConnection(1), PagedConnection(2)]
    answer = await sidecars.ask_all("token", "ListRollouts", pb.ListRolloutsRequest(), "slots")
    assert [slot.slot for slot in answer.slots] == ["slot-0", "slot-1"]
