"""What the paper proves and assumes, measured: Theorem 4.1 and appendices A.1–A.4, A.6, A.7 of Liu et al. (2022)."""

from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import FAINT, INK, new_figure
from hardpde.studies.reproduction.base import Outcome, Work
from hardpde.studies.reproduction.theory.base import Finding, Found
from hardpde.studies.reproduction.theory.condition_numbers import CONDITION_NUMBERS
from hardpde.studies.reproduction.theory.gradient_bounds import GRADIENT_BOUNDS
from hardpde.studies.reproduction.theory.ranks import RANKS
from hardpde.studies.reproduction.theory.time_blend import TIME_BLEND
from hardpde.studies.reproduction.theory.violations import VIOLATIONS
from hardpde.support.tables import markdown_table

CLAIMS = (GRADIENT_BOUNDS, CONDITION_NUMBERS, RANKS, VIOLATIONS, TIME_BLEND)


def theory(work: Work) -> Outcome:
    """Every statement of the paper that a computation can check, beside what came out."""
    data = {}
    for claim in CLAIMS:
        work.say(f"theory: {claim.name}")
        data[claim.name] = claim.measure(work.quick)
    return Outcome("The paper's theory, measured", _text(data), data, {"": _figure(data)})


def _text(data: Found) -> str:
    """What the paper states, what was measured, whether it holds."""
    rows = [_row(finding) for claim in CLAIMS for finding in claim.findings(data[claim.name])]
    parts = ["All numbers are computed here, in double precision; only the columns named \"paper\" are quoted.",
             markdown_table(["the paper's statement", "measured", "holds?"], rows),
             *[claim.words(data[claim.name]) for claim in CLAIMS if claim.words]]
    return "\n\n".join(parts) + "\n"


def _row(finding: Finding) -> tuple[str, str, str]:
    verdict = "yes" if all(finding.holds) else "in part" if any(finding.holds) else "**no**"
    return finding.statement, finding.measured, verdict


def _figure(data: Found) -> Figure:
    """Gradients and bounds, their ratios, condition numbers, ranks, violations over β_s, errors over β_t."""
    figure = new_figure(13.5, 8.4)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.14)  # type: ignore[union-attr, call-arg]
    panels = [(title, draw, data[claim.name]) for claim in CLAIMS for title, draw in claim.panels.items()]
    for axis, (title, draw, found) in zip(figure.subplots(2, 3).flat, panels):
        draw(axis, found)
        axis.set_title(title, color=INK, size=11)
        axis.grid(True, color=FAINT, lw=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[1]:
            axis.legend(frameon=False, fontsize=8)
    return figure
