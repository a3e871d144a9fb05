"""What a reference costs: its operator graph, work, lower bound and roofline."""
