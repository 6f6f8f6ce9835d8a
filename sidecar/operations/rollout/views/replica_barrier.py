"""Has the binds here show a step before it is answered, or has the answer say that they do not."""

from typing import Final

import msgspec

from sidecar.operations.rollout.requests import StepAnswer
from sidecar.operations.rollout.views.snapshot import RolloutViews

NOT_SHOWN: Final = (
    "it is on record, and the binds of this replica do not show it yet: the store does not answer; they follow as soon"
    " as it does, which `--wait` waits for"
)


async def shown(views: RolloutViews, answer: StepAnswer) -> StepAnswer:
    """Return the answer of a step, with a warning if the binds here cannot be made to show it now."""
    if not answer.changed:
        return answer
    await views.look()
    here = views.current().slots.get(answer.slot)
    if here is not None and here.revision >= answer.revision:
        return answer
    return msgspec.structs.replace(answer, warnings=(*answer.warnings, NOT_SHOWN))
