"""The picture of what the paper proves and what was measured: six panels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, new_figure

SHADES = {"before": COLOURS[1], "after": COLOURS[0]}
EPSILON = 1e-17  # stands for zero on a logarithmic axis


def theory_figure(data: Mapping[str, Any]) -> Figure:
    """Gradients and bounds, their ratios, condition numbers, ranks, violations over β_s, errors over β_t."""
    figure = new_figure(13.5, 8.4)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.14)  # type: ignore[union-attr, call-arg]
    panels = (
        (_gradients, "gradients", "Theorem 4.1: gradient of the PDE loss"),
        (_ratios, "gradients", "Theorem 4.1: largest gradient / bound"),
        (_conditions, "condition", "A.7.3: condition number in training (Adam)"),
        (_ranks, "rank", "A.1: a basis that loses rank"),
        (_hardness, "hardness", r"A.4: boundary conditions over $\beta_s$"),
        (_time, "time", "A.6: error left by the time blend"))
    for axis, (draw, part, title) in zip(figure.subplots(2, 3).flat, panels):
        draw(axis, data[part])
        axis.set_title(title, color=INK, size=11)
        axis.grid(True, color=FAINT, lw=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[1]:
            axis.legend(frameon=False, fontsize=8)
    return figure


def _gradients(axis: Axes, found: Mapping[str, Any]) -> None:
    for form, shade in SHADES.items():
        curves = found["forms"][form]["curves"]
        curve = next(c for c in curves if c["width"] == 20 and c["a"] == 2.0)
        axis.loglog(curve["scale"], curve["all"]["gradient"], color=shade, lw=1.8, marker="o", ms=3, label=form)
        axis.loglog(curve["scale"], curve["all"]["bound"], color=shade, lw=1.2, ls=(0, (4, 3)), label=f"{form}, bound")
    axis.set_xlabel("scale of the weights")
    axis.set_ylabel("‖∇L‖₂   (width 20, a = 2)")


def _ratios(axis: Axes, found: Mapping[str, Any]) -> None:
    forms = found["forms"]
    bars = [(form, block, forms[form]["largest"][block]["ratio"]) for form in SHADES
            for block in ("c", "w", "b", "c_p") if block in forms[form]["largest"]]
    places = np.arange(len(bars))[::-1]
    axis.barh(places, [ratio for *_, ratio in bars], color=[SHADES[form] for form, *_ in bars], height=0.6)
    for place, (*_, ratio) in zip(places, bars):
        axis.annotate(f"{ratio:.3f}", (1.0, place), xytext=(8, 0), textcoords="offset points", va="center", size=9,
                      color=INK, bbox={"fc": "white", "ec": "none", "pad": 1})
    axis.axvline(1.0, color=INK, lw=1.2)
    axis.set_xscale("log")
    axis.set_xlim(min(3e-3, *[ratio / 2 for *_, ratio in bars]), max(4.0, *[2 * ratio for *_, ratio in bars]))
    axis.set_yticks(places, [f"{form}, {block.replace('_p', 'ₚ')}" for form, block, _ in bars])
    axis.set_xlabel("over all sweeps; the bound holds left of the line")


def _conditions(axis: Axes, found: Mapping[str, Any]) -> None:
    for form, shade in SHADES.items():
        values = np.maximum(found["forms"][form]["training"]["adam"]["condition"], EPSILON)
        axis.semilogy(np.arange(1, len(values) + 1), values, color=shade, lw=1.2, label=form)
    axis.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(2, 0.5)))
    axis.set_xlabel("step")
    axis.set_ylabel("|ΔL| / ‖Δθ‖₂")


def _ranks(axis: Axes, found: Mapping[str, Any]) -> None:
    counter = found["counter_example"]
    n1 = np.array(counter["n1"][1:])
    axis.loglog(n1, counter["projection"][1:], color=COLOURS[0], lw=1.8, label="B = I − nnᵀ")
    axis.loglog(n1, counter["basis"][1:], color=COLOURS[1], lw=1.8, label="[n₂, −n₁, 0], [n₃, 0, −n₁]")
    axis.set_ylim(top=20)
    axis.set_xlabel("n₁")
    axis.set_ylabel("second singular value")


def _hardness(axis: Axes, found: Mapping[str, Any]) -> None:
    betas = np.array(found["beta_s"])
    disc, pack = found["three-holes"], found.get("battery-pack")
    axis.semilogy(betas, [pair[1] for pair in disc["printed"]["all"]], color=COLOURS[0], lw=1.6,
                  label="disc with holes, as printed")
    axis.semilogy(betas, disc["worst"], color=COLOURS[0], lw=1.6, ls=(0, (4, 3)),
                  label="disc with holes, l = 0 on the boundary")
    if pack is not None:
        axis.semilogy(betas, [pair[1] for pair in pack["printed"]["outer"]], color=COLOURS[1], lw=1.6,
                      label="pack, rectangle, as printed")
        axis.semilogy(betas, [max(pack["printed"][name][k][1] for name in pack["sharp"]) for k in range(len(betas))],
                      color=COLOURS[4], lw=1.6, label="pack, cells and pipes, as printed")
    axis.semilogy(betas, np.exp(-betas), color=GREY, lw=1.0, ls=":", label=r"$e^{-\beta_s}$")
    axis.axhline(max(row["exact"] for row in (disc, pack) if row), color=COLOURS[2], lw=1.6, label="exact ansatz")
    axis.set_ylim(1e-18, 1e12)
    axis.set_yticks([1e-15, 1e-10, 1e-5, 1e0])
    axis.set_xlabel(r"$\beta_s$")
    axis.set_ylabel("largest |ñ·(u, p) − g̃|")


def _time(axis: Axes, found: Mapping[str, Any]) -> None:
    axis.loglog(found["beta_t"], found["mae"], color=COLOURS[0], lw=1.8, marker="o", ms=4,
                label="one cell, loss zero")
    networks = found["trained"]
    axis.loglog([row["beta_t"] for row in networks], [row["mae"] for row in networks], ls="", marker="x", ms=9, mew=2,
                color=COLOURS[1], label="one cell, trained networks")
    for (beta_s, values), mark in zip(found["paper"]["mae"].items(), "sD"):
        axis.loglog(found["paper"]["beta_t"], values, ls="", marker=mark, ms=5, mfc="none", color=GREY,
                    label=rf"paper's pack, $\beta_s$ = {beta_s}")
    axis.set_xticks(found["beta_t"], [f"{beta:g}" for beta in found["beta_t"]])
    axis.minorticks_off()
    axis.set_xlabel(r"$\beta_t$")
    axis.set_ylabel("MAE")
