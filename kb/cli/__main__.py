"""``python -m kb.cli``: the command from a checkout that is not installed."""

from kb.cli import main

main()
