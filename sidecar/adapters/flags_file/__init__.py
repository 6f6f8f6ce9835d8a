"""The flag backend `file`: flags in a JSON or TOML file that somebody else replaces."""

from sidecar.adapters.flags_file.backend import FileFlags
from sidecar.adapters.flags_file.edits import FileFlagEdits
from sidecar.adapters.flags_file.plugin import FILE_FLAGS, sidecar_flag_backends

__all__ = ["FILE_FLAGS", "FileFlagEdits", "FileFlags", "sidecar_flag_backends"]
