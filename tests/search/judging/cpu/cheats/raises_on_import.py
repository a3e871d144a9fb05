# expect: build_failed | ZeroDivisionError

1 / 0
