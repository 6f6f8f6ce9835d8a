"""`sidecar subagent history`: who was refused, as which role, and what vouched for whom."""

import json

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.views import HistoryWish, show_history
from tests.support.operator_desk import Desk, wish
from tests.support.operators import an_operated_sidecar


async def test_the_history_shows_who_was_refused_and_with_which_key() -> None:
    """A viewer who promotes, and a watchdog's key that poses as an operator: of that only the key is sure."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish(reason="mine"), to_test=True, token=bench.token("viewer", sub="eve@example"))
        posing = bench.token("operator", signer=bench.watchdog)
        await desk.say(kill, wish(reason="gone"), token=posing)
        await bench.rollout.refusals.write()
        _, out, _ = await desk.say(show_history, HistoryWish("shop"))
        _, rows, _ = await desk.say(show_history, HistoryWish("shop"), as_json=True)

    assert "refused  ROLE_REQUIRED: the role viewer may not call Transition; it takes: operator" in out
    assert "by eve@example (viewer): mine" in out
    assert "refused  ROLE_TOKEN_INVALID: " in out
    assert f"by the key {bench.watchdog.key_id}: gone" in out
    refused = [json.loads(row) for row in rows.splitlines()][-2:]
    assert [(row["actor"], row["actor_key"], row["actor_role"]) for row in refused] == [
        ("eve@example", bench.signer.key_id, "viewer"),
        ("", bench.watchdog.key_id, "unspecified"),
    ]
