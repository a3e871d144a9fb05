"""The drawings of a suite as SVG files that stand alone."""

from __future__ import annotations

from markupsafe import Markup

from kb.app.bench.figures import curve
from kb.app.bench.record import SuiteRecord
from kb.web.svg.fast_p import fast_p
from kb.web.svg.suite_bars import shares, speedups
from kb.web.text import address
from kb.web.views.suite import bars_of, baselines_of

# The colours of the pages in light mode.
_STYLE = """svg{font:11px system-ui,sans-serif;background:#fff;color:#57606a}text{fill:#57606a}.mid{text-anchor:middle}
.end{text-anchor:end}.grid{stroke:#eceff2;fill:none}.one{stroke:#57606a;stroke-dasharray:2 3;fill:none}
.stair{fill:none;stroke:#0072b2;stroke-width:2}.stair.compile{stroke:#b25a00;stroke-dasharray:6 3}
.label{font-weight:600}.label.eager{fill:#0072b2}.label.compile{fill:#b25a00}.reached{fill:#0072b2}
.fate circle{fill:#57606a}.won circle{fill:#00795a}.lost circle{fill:#c24d00}
.whisker{stroke:#57606a;stroke-width:1.2}.cross{fill:none;stroke:#a26a00;stroke-width:1.6}"""


def plots(found: SuiteRecord) -> dict[str, str]:
    """Return the drawings of a suite as SVG files, by name; what has nothing to show is left out."""
    drawn = {"fast-p": fast_p({name: curve(found.rows, name) for name in baselines_of(found)})}
    for name in baselines_of(found):
        drawn[f"speedup-{address(name)}"] = speedups(bars_of(found, name), name)
    drawn["roofline"] = shares(bars_of(found, "eager"))
    return {name: _alone(svg) for name, svg in drawn.items() if svg}


def _alone(svg: Markup) -> str:
    head = '<svg xmlns="http://www.w3.org/2000/svg"'
    text = str(svg).replace("<svg", head, 1)
    start = text.index(">") + 1
    return f"{text[:start]}<style>{_STYLE}</style>{text[start:]}\n"
