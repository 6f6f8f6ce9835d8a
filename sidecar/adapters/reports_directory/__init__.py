"""Reports as files below one directory of the operator's."""

from sidecar.adapters.reports_directory.files import ReportsDirectory, ReportsDirectoryUnusable

__all__ = ["ReportsDirectory", "ReportsDirectoryUnusable"]
