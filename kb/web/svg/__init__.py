"""Plots and trees, drawn on the server as SVG that its page's style sheet colours."""
