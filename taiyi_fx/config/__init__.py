"""Configurations, checked before anything is traced."""
