"""Find the turn of a token, with everything that is on record of it if this process did not bind it."""

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.operations.endings import Ending
from sidecar.operations.restoring import RestoreTurn
from sidecar.operations.turns import Turn, Turns


class FindTurn:
    """What every operation on a turn begins with."""

    def __init__(self, turns: Turns, restore: RestoreTurn) -> None:
        """Join the parts."""
        self._turns = turns
        self._restore = restore

    async def __call__(self, token: str) -> Turn:
        """Return the turn.

        Raises:
            SurfaceTokenInvalid, SurfaceTokenExpired, AdmissionRefused.
            StoreUnavailable: it was bound elsewhere, and nobody can say what became of it there.
        """
        turn = self._turns.of_token(token)
        if turn.bound_here:
            return turn
        if turn.restored is None:
            turn.restored = Ending()
            await self._bring_back(turn, turn.restored)
        refused = await turn.restored.wait()
        if refused is not None:
            raise refused
        return turn

    async def _bring_back(self, turn: Turn, restored: Ending[SubagentsError | None]) -> None:
        refused: SubagentsError | None = StoreUnavailable("the turn could not be brought back; try again")
        try:
            await self._restore(turn)
            refused = None
        except SubagentsError as error:
            refused = error
        finally:
            if refused is not None:
                self._turns.forget(turn)
            restored.settle(refused)
