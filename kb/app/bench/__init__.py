"""Suites: many problems, each an ordinary run, with one record that a second call goes on with."""
