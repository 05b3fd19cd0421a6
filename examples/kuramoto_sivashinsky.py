"""Kuramoto–Sivashinsky equation, periodic: long waves grow, short ones are damped, and waves pass energy on. Marched.

    ∂u/∂t + u ∂u/∂x + v + ∂²v/∂x² = 0,   v = ∂²u/∂x²     for 0 < x < 22, 0 < t < 20
    u = cos z (1 + sin z),   z = 2πx/22                   at t = 0

The reference is a spectral one: ETDRK4 (Kassam and Trefethen, 2005) on 128 nodes.
"""

import jax.numpy as jnp
import numpy as np

import hardpde as hp

LENGTH, NODES = 22.0, 128


def begin(x):
    z = 2 * np.pi * x / LENGTH
    return jnp.cos(z) * (1 + jnp.sin(z))


def spectral(end, snapshots=10, step=0.01):
    """u at some equal times up to the end; phi functions by means over a circle."""
    x = LENGTH * np.arange(NODES) / NODES
    k = 2 * np.pi / LENGTH * np.fft.rfftfreq(NODES, 1 / NODES)
    each = round(end / snapshots / step)
    z = (h := end / snapshots / each) * (k**2 - k**4)
    r = z[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    phi = [h * f.mean(1).real for f in (
        (np.exp(r / 2) - 1) / r, (-4 - r + np.exp(r) * (4 - 3 * r + r**2)) / r**3,
        (2 + r + np.exp(r) * (r - 2)) / r**3, (-4 - 3 * r - r**2 + np.exp(r) * (4 - r)) / r**3)]
    n = lambda v: -0.5j * k * (k < k[-1] * 2 / 3) * np.fft.rfft(np.fft.irfft(v) ** 2)  # noqa: E731
    v, found, half = np.fft.rfft(np.asarray(begin(x))), [], np.exp(z / 2)
    for _ in range(snapshots):
        for _ in range(each):
            a = half * v + phi[0] * n(v)
            b = half * v + phi[0] * n(a)
            c = half * a + phi[0] * (2 * n(b) - n(v))
            v = half**2 * v + phi[1] * n(v) + 2 * phi[2] * (n(a) + n(b)) + phi[3] * n(c)
        found.append(np.fft.irfft(v))
    return hp.Reference(x[:, None], {"u": np.stack(found)}, end * np.arange(1, snapshots + 1) / snapshots)


def problem(end=20.0):
    return hp.Problem(
        domain=hp.Interval(0, LENGTH, left="left", right="right"), fields=["u", "v"], time=(0.0, end),
        residual=lambda x, q, dq: (hp.dt(dq.u) + q.u * hp.grad(dq.u)[0] + q.v + hp.laplacian(dq.v),
                                   q.v - hp.laplacian(dq.u)),
        conditions=[hp.initial("u", lambda x: begin(x[0])), hp.periodic("left", "right")],
        reference=lambda: spectral(end), name="kuramoto-sivashinsky")


if __name__ == "__main__":
    solution = hp.solve(problem(), solver="march", tolerance=1e-4)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}; {solution.decision}")
    solution.picture("u").savefig("kuramoto_sivashinsky.png")
