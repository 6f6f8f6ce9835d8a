"""The steps of the record's schema under PostgreSQL; see `sidecar.adapters.migrations`."""
