"""What an administrator of the database can do to a record, its triggers dropped: the same words for each database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec

from sidecar.adapters.record_sqlite.reading import turn_facts
from sidecar.adapters.record_sqlite.rows import microseconds
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.encoding import VERSION, draft_of
from sidecar.core.journal.entries import Draft, Stored
from sidecar.core.journal.facts import Body
from sidecar.core.journal.texts import Texts

Values = Mapping[str, Any]


class Tampering(ABC):
    """A record that is open for anything."""

    @abstractmethod
    async def execute(self, statement: str, *values: Any) -> int:
        """Run a statement with `?` for each value; return how many rows it changed."""

    @abstractmethod
    async def fact(self, turn: str, version: int) -> Stored:
        """Return a fact."""

    # --- how the tables are named and joined

    of_turn: str
    """A condition with one value, the turn's id, on facts."""
    of_instance: str
    """The same, for an instance, on facts and roots."""
    turns: str
    """The table of turns."""
    instance_column: str

    @abstractmethod
    def value(self, column: str, value: Any) -> Any:
        """Return what is written into a column."""

    # --- what is done

    async def change(self, statement: str, *values: Any) -> None:
        """Run a statement that has to change something."""
        assert await self.execute(statement, *values), f"changed nothing: {statement}"

    async def set_fact(self, turn: str, version: int, /, **columns: Any) -> None:
        """Change columns of a fact."""
        names = ", ".join(f"{self.instance_column if name == 'by' else name} = ?" for name in columns)
        values = [self.value(name, value) for name, value in columns.items()]
        await self.change(f"UPDATE facts SET {names} WHERE {self.of_turn} AND version = ?", *values, turn, version)

    async def say(self, turn: str, version: int, change: Callable[[Body, Texts], tuple[Body, Texts]]) -> None:
        """Let a fact say something else, and leave its link."""
        stored = await self.fact(turn, version)
        draft: Draft = draft_of(stored)
        body, texts = change(draft.body, draft.texts)
        assert (body, texts) != (draft.body, draft.texts)
        encode = msgspec.msgpack.encode
        await self.set_fact(turn, version, body=encode((VERSION, body)), texts=encode((VERSION, texts)))

    async def remove_facts(self, turn: str, versions: Sequence[int]) -> None:
        """Remove some facts of a turn."""
        for version in versions:
            await self.change(f"DELETE FROM facts WHERE {self.of_turn} AND version = ?", turn, version)

    async def renumber(self, turn: str, version: int, becomes: int) -> None:
        """Give a fact another version."""
        await self.set_fact(turn, version, version=becomes)

    async def swap_versions(self, turn: str, first: int, second: int) -> None:
        """Let two facts of a turn change their places in it."""
        await self.renumber(turn, first, 99)
        await self.renumber(turn, second, first)
        await self.renumber(turn, 99, second)

    async def number_of(self, turn: str, version: int) -> int:
        """Return the place of a fact in the journal."""
        return int(await self.scalar(f"SELECT number FROM facts WHERE {self.of_turn} AND version = ?", turn, version))

    async def swap_numbers(self, first: tuple[str, int], second: tuple[str, int]) -> None:
        """Let two facts change their places in the journal."""
        at, other = await self.number_of(*first), await self.number_of(*second)
        await self.set_fact(*first, number=999)
        await self.set_fact(*second, number=at)
        await self.set_fact(*first, number=other)

    async def remove_turn(self, turn: str) -> None:
        """Remove a turn with all that is kept of it."""
        await self.execute(f"DELETE FROM attempt_frames WHERE {self.of_turn}", turn)
        await self.change(f"DELETE FROM facts WHERE {self.of_turn}", turn)
        await self.change(f"DELETE FROM {self.turns} WHERE turn_id = ?", turn)

    async def set_turn(self, turn: str, **columns: Any) -> None:
        """Change what a turn is looked for by."""
        for name, value in columns.items():
            await self.change(f"UPDATE {self.turns} SET {name} = ? WHERE turn_id = ?", self.value(name, value), turn)

    async def set_root(self, instance: str, **columns: Any) -> None:
        """Change where a running root stands."""
        for name, value in columns.items():
            await self.change(f"UPDATE roots SET {name} = ? WHERE {self.of_instance}", value, instance)

    async def remove_root(self, instance: str) -> None:
        """Remove a running root."""
        await self.change(f"DELETE FROM roots WHERE {self.of_instance}", instance)

    @abstractmethod
    async def closed(self) -> None:
        """Close the connection."""

    @abstractmethod
    async def scalar(self, statement: str, *values: Any) -> Any:
        """Return the one value that a statement brings."""


class SqliteTampering(Tampering):
    """A SQLite file."""

    of_turn = "turn = (SELECT number FROM turns WHERE turn_id = ?)"
    of_instance = "instance = (SELECT number FROM instances WHERE instance = ?)"
    turns = "turns"
    instance_column = "instance"

    def __init__(self, path: Path) -> None:
        """Open it, and drop its triggers."""
        self.connection = apsw.Connection(str(path))
        for name in self.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            self.connection.execute(f"DROP TRIGGER {name[0]}")

    def close(self) -> None:
        """Close it."""
        self.connection.close()

    async def closed(self) -> None:
        """Close it."""
        self.close()

    async def execute(self, statement: str, *values: Any) -> int:
        """Run a statement."""
        self.connection.execute(statement, values)
        return self.connection.changes()

    async def scalar(self, statement: str, *values: Any) -> Any:
        """Return one value."""
        return self.connection.execute(statement, values).get

    async def fact(self, turn: str, version: int) -> Stored:
        """Return a fact."""
        return turn_facts(self.connection, TurnId(turn))[version - 1]

    def value(self, column: str, value: Any) -> Any:
        """Return times as numbers, and instances as theirs."""
        if column == "by":
            return self.connection.execute("SELECT number FROM instances WHERE instance = ?", (value,)).get
        return microseconds(value) if isinstance(value, datetime) else value


class PostgresTampering(Tampering):
    """A PostgreSQL database."""

    of_turn = "turn_id = ?"
    of_instance = "instance_id = ?"
    turns = "turn_heads"
    instance_column = "instance_id"

    def __init__(self, connection: Any) -> None:
        """Take a connection of the owner; see `opened`."""
        self.connection = connection

    @classmethod
    async def opened(cls, dsn: str) -> "PostgresTampering":
        """Connect, and disable the triggers."""
        connection = await asyncpg.connect(dsn)
        for table in ("facts", "attempt_frames", "markers", "erasures", "rollout_audit"):
            await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        return cls(connection)

    async def closed(self) -> None:
        """Close it."""
        await self.connection.close()

    async def execute(self, statement: str, *values: Any) -> int:
        """Run a statement."""
        done: str = await self.connection.execute(_numbered(statement), *values)
        return int(done.rpartition(" ")[2])

    async def scalar(self, statement: str, *values: Any) -> Any:
        """Return one value."""
        return await self.connection.fetchval(_numbered(statement), *values)

    async def fact(self, turn: str, version: int) -> Stored:
        """Return a fact."""
        columns = "turn_id, instance_id, at, body, texts, salt, texts_digest, link"
        sql = f"SELECT {columns} FROM facts WHERE turn_id = $1 AND version = $2"
        return Stored(*await self.connection.fetchrow(sql, turn, version))

    def value(self, column: str, value: Any) -> Any:
        """Return what the column takes."""
        return bool(value) if column == "called" else value


def _numbered(statement: str) -> str:
    """Return a statement with `$1`, `$2` and so on in the place of `?`."""
    first, *others = statement.split("?")
    return first + "".join(f"${number}{other}" for number, other in enumerate(others, 1))
