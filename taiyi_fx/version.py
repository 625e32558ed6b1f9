"""The version, known without an installation, too."""

__version__ = "0.1.0"
