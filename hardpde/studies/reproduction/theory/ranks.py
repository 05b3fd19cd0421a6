"""A.1 to A.4: the rank of the bases that the ansatz projects with."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hardpde.evaluation.figures.base import COLOURS
from hardpde.studies.reproduction.theory.base import ROUNDING, Claim, Finding, Found


def projection(n: np.ndarray) -> np.ndarray:
    """B = I − nnᵀ for unit vectors n (…, k)."""
    return np.eye(n.shape[-1]) - n[..., :, None] * n[..., None, :]


def low_dimensional(n: np.ndarray) -> np.ndarray:
    """The bases of A.2 for ñ of two or three components."""
    if len(n) == 2:
        return np.array([[n[1]], [-n[0]]])
    return np.array([[0.0, -n[2], n[1]], [n[2], 0.0, -n[0]], [-n[1], n[0], 0.0]])


def counter_example(n: np.ndarray) -> np.ndarray:
    """The basis of A.1 that fails where n₁ = 0."""
    return np.array([[n[1], n[2]], [-n[0], 0.0], [0.0, -n[0]]])


def ranks(quick: bool = False) -> dict[str, Any]:
    """Ranks of the bases of A.1–A.3: of B = I − ññᵀ in 2 to 11 dimensions, of those of A.2, of the counter-example."""
    count, rng = (50 if quick else 1000), np.random.default_rng(0)
    rows = []
    for size in range(2, 12):
        n = _unit(rng.normal(size=(count, size)))
        b = projection(n)
        singular = np.linalg.svd(b, compute_uv=False)
        rows.append({
            "d": size - 1, "ranks": sorted({int(r) for r in np.linalg.matrix_rank(b, tol=ROUNDING)}),
            "least": float(singular[:, -2].min()), "zero": float(singular[:, -1].max()),
            "eigenvalues_apart": float((singular[:, 0] - singular[:, -2]).max()),
            "residual": float(np.abs(np.einsum("ni,nij->nj", n, b)).max())})
    low = []
    for size in (2, 3):
        n = _unit(rng.normal(size=(count, size)))
        bases = np.stack([low_dimensional(v) for v in n])
        low.append({"d": size - 1, "ranks": sorted({int(r) for r in np.linalg.matrix_rank(bases, tol=ROUNDING)}),
                    "residual": float(np.abs(np.einsum("ni,nij->nj", n, bases)).max())})
    first = np.concatenate([[0.0], np.geomspace(1e-8, 0.999, 25)])
    normals = [np.array([f, *np.full(2, math.sqrt((1 - f * f) / 2))]) for f in first]
    return {"vectors": count, "projection": rows, "low_dimensional": low, "counter_example": {
        "n1": first.tolist(),
        "basis": [float(np.linalg.svd(counter_example(n), compute_uv=False)[1]) for n in normals],
        "projection": [float(np.linalg.svd(projection(n), compute_uv=False)[1]) for n in normals]}}


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _findings(found: Found) -> list[Finding]:
    rows, low, counter = found["projection"], found["low_dimensional"], found["counter_example"]
    apart = max(row["eigenvalues_apart"] for row in rows)
    return [
        Finding("A.3: B = I − ññᵀ has rank d and ñᵀB = 0, for d = 1 to 10",
                f"smallest nonzero singular value {min(row['least'] for row in rows):.6f}, "
                f"ñᵀB at most {max(row['residual'] for row in rows):.0e}",
                [all(row["ranks"] == [row["d"]] for row in rows)]),
        Finding("A.2: the bases for d = 1 and d = 2 have rank d",
                f"ranks {' and '.join(', '.join(map(str, row['ranks'])) for row in low)}, "
                f"ñᵀB at most {max(row['residual'] for row in low):.0e}",
                [all(row["ranks"] == [row["d"]] for row in low)]),
        Finding("A.1: the other basis loses rank where n₁ = 0",
                f"its second singular value is n₁ to "
                f"{max(abs(a - b) for a, b in zip(counter['n1'], counter['basis'])):.0e}, "
                f"that of B at least {min(counter['projection']):.6f}",
                [counter["basis"][0] == 0.0]),
        Finding("A.4 assumes that the d nonzero eigenvalues of B are all different",
                f"they are equal (apart by at most {apart:.0e}), as those of a projection; "
                "the proof does not need more",
                [apart > ROUNDING])]


def _draw_ranks(axis: Axes, found: Found) -> None:
    counter = found["counter_example"]
    n1 = np.array(counter["n1"][1:])
    axis.loglog(n1, counter["projection"][1:], color=COLOURS[0], lw=1.8, label="B = I − nnᵀ")
    axis.loglog(n1, counter["basis"][1:], color=COLOURS[1], lw=1.8, label="[n₂, −n₁, 0], [n₃, 0, −n₁]")
    axis.set_ylim(top=20)
    axis.set_xlabel("n₁")
    axis.set_ylabel("second singular value")


RANKS = Claim("rank", ranks, _findings, {"A.1: a basis that loses rank": _draw_ranks})
