"""What is shown: the page, the terminal, an MLflow server."""
