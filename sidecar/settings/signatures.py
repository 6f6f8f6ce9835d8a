"""Which answers of data services have to be signed."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from sidecar.settings.values import Section


class SignatureSettings(Section):
    """Answers of data services that are withheld unless they are signed (HMAC-SHA256)."""

    files: dict[str, Path] = Field(
        {}, description="Key files by key id, 32 bytes or more each, readable by the owner only; any of them will do."
    )
    connectors: list[str] = Field([], description="Connectors all of whose answers must be signed.")
    verticals: list[str] = Field([], description="Verticals all of whose agents get signed answers only.")
    tools: list[str] = Field([], description="Tools whose answers must be signed.")

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if bool(self.files) != bool(self.connectors or self.verticals or self.tools):
            raise ValueError("give both: keys in `files`, and in `connectors`, `verticals` or `tools` whose answers")
        wrong = [key_id for key_id in self.files if not (key_id.isascii() and key_id.isalnum())]
        if wrong:
            raise ValueError(f"key ids are letters and digits only: {', '.join(map(repr, wrong))}")
        return self
