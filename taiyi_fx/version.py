"""The version, available without an installation as well."""

__version__ = "0.1.0"
