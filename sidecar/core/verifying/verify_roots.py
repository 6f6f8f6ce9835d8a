"""Verifies one running root: its facts, its recorded state, and its signatures.

A running root is a hash over the facts that one sidecar appended to the turns of one day. Signed roots are stored
outside the database. An attacker who changes rows is therefore detected, unless the attacker also has the key.
"""

from collections.abc import Iterator, Mapping

from sidecar.core.journal.appends import RootState
from sidecar.core.journal.chain import NOTHING, rooted
from sidecar.core.verifying.checkpoint_lines import RootKey
from sidecar.core.verifying.findings import Finding, FindingKind


class RootWalk:
    """Verifies one running root: the caller passes its facts to `take`, in order, and then calls `end`.

    Args:
        key: instance and day of the root.
        state: the recorded state of the root; None: there is none.
        claims: the root in each signed checkpoint, by the number of facts that it covers.

    Attributes:
        number: the number of facts so far.
    """

    def __init__(self, key: RootKey, state: RootState | None, claims: Mapping[int, str]) -> None:
        self._instance, self._day = key
        self._state = state
        self._claims = claims
        self._root = NOTHING
        self._fits_up_to = 0
        self._contradicted = False
        self.number = 0

    def take(self, link: bytes) -> Iterator[Finding]:
        """Add the next fact, by its link, and yield the problems that it shows."""
        self.number += 1
        self._root = rooted(self._root, link)
        # Every root after a wrong fact is wrong, so only the first contradiction is reported.
        if self._contradicted:
            return
        root, state = self._root.hex(), self._state
        if self._claims.get(self.number, root) != root:
            text = f"the first {self.number} facts {self._of_root} are not those that a signed checkpoint covers"
            yield self._differs(FindingKind.ROOT_CONTRADICTED, text)
        # The root in the database is not signed; it is compared only at the number of facts that it states.
        elif state is not None and state.number == self.number and state.root != root:
            text = f"the {self.number} facts {self._of_root} do not give the root that the record says it stands at"
            yield self._differs(FindingKind.ROOT_ALTERED, text)
        # The newest checkpoint that fits narrows down where the alteration is.
        elif self.number in self._claims:
            self._fits_up_to = self.number

    def end(self) -> Iterator[Finding]:
        """Yield the problem if facts are missing at the end."""
        # Compared with the checkpoints first: an attacker who removed facts could change the root in the database, but
        # not the signed lines.
        signed = max((number for number in self._claims if number > self.number), default=None)
        stands = None if self._state is None else self._state.number
        if signed is not None:
            yield self._missing(f"a signed checkpoint has {signed}")
        elif stands is not None and stands > self.number:
            yield self._missing(f"the record says that there are {stands}")

    @property
    def is_ahead(self) -> bool:
        """Whether there are facts that the root did not cover when it was read: appended since, or inserted."""
        return self.number > (0 if self._state is None else self._state.number)

    def against(self, state: RootState | None) -> Iterator[Finding]:
        """Yield the problem if the root, which was read again, does not cover all facts that were found."""
        stands = 0 if state is None else state.number
        # The facts were read before this root, and each append updates both in one transaction. A root that is still
        # behind has not seen these facts.
        if stands < self.number:
            text = f"{self.number} facts {self._of_root} are there, and the running root covers {stands}"
        elif state is not None and stands == self.number and state.root != self._root.hex() and not self._contradicted:
            text = f"the {self.number} facts {self._of_root} do not give the root that the record says it stands at"
        else:
            return
        # A root that is ahead of the facts found is no finding here: facts were appended in the meantime.
        yield Finding(FindingKind.ROOT_ALTERED, text, self._instance, self._day, sequence=self.number)

    @property
    def unsigned(self) -> int:
        """The number of facts after the newest checkpoint."""
        return max(0, self.number - max(self._claims, default=0))

    @property
    def _of_root(self) -> str:
        return f"of instance {self._instance} in turns of {self._day}"

    def _differs(self, kind: FindingKind, text: str) -> Finding:
        self._contradicted = True
        after = f", after the first {self._fits_up_to}," if self._fits_up_to else ""
        text = f"{text}: something among them{after} was altered, moved, removed or put in"
        return Finding(kind, text, self._instance, self._day, sequence=self.number)

    def _missing(self, said: str) -> Finding:
        text = f"facts {self._of_root} are missing: {self.number} are there, {said}"
        return Finding(FindingKind.ROOT_CUT, text, self._instance, self._day, sequence=self.number + 1)
