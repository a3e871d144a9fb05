"""The offline author's compiler: operator graph, fusion, schedules and code generators."""
