# expect: build_failed | ZeroDivisionError
"""Cannot be imported."""

1 / 0
