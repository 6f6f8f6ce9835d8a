"""`sidecar dev`: runs a repository that `sidecar init` wrote, as a whole, for one developer."""
