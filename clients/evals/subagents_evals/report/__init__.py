"""Reports of a run: as a page, on the terminal, and to an MLflow server."""
