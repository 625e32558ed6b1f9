"""Measurements of taiyi_fx that take too long for the tests."""
