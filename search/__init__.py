"""The evolution: task, graph, authors, judge."""
