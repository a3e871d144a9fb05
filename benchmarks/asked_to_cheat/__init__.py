"""An author is asked, round by round, to win without computing."""
