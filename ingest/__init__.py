"""Documents in: from files to passages."""

# Raised when readers or splitting give other passages for the same file: all is read again then.
VERSION = "7"
