from plugins.flags_unleash.tests.unleash import unleash

__all__ = ["unleash"]
