# expect: build_failed | ModelNew
"""Defines nothing."""

x = 1
