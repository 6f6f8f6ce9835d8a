"""The support sub-agent: knows the user's orders."""

from collections.abc import Mapping, Sequence
from typing import Any

from examples.verticals.staging import Staging
from subagents_client.runner import Answer, DataUnavailable, Run

Order = Mapping[str, Any]


async def answer(run: Run, staging: Staging) -> Answer:
    """Tell where an order is: the one that the conversation was about, if it was about one."""
    await run.status("checking_order_status")
    await staging.pause(0.8)
    result = await run.call_tool("order_status")
    if isinstance(result, DataUnavailable):
        return Answer("Your orders cannot be looked up at the moment.", data_unavailable=True)
    orders: Sequence[Order] = result.payload["orders"]
    if not orders:
        return Answer("There is no order under your name.")
    meant = _meant(orders, f"{run.request} {run.context.prior_context}".lower())
    shown = [meant] if meant else orders
    for order in shown:
        step = {"order_id": order["order_id"], "status": order["status"]}
        run.render("render_order_timeline", tool_input={"order_id": order["order_id"]}, component_data=step)
    return Answer(" ".join(_sentence(order) for order in shown))


def _meant(orders: Sequence[Order], said: str) -> Order | None:
    return next((order for order in orders if order["item"].lower() in said), None)


def _sentence(order: Order) -> str:
    arrival = f" and should arrive on {order['eta']}" if order["eta"] else ""
    return f"Order {order['order_id']} ({order['item'].lower()}) is {order['status']}{arrival}."
