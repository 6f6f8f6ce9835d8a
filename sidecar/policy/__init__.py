"""The interfaces of plugins, and their discovery, selection and checks."""
