"""Stripes that grow from a spot by reaction and diffusion (Schnakenberg, 1979; Turing's instability). Marched.

    ∂u/∂t = Δu + 0.1 − u + u² v,   ∂v/∂t = 20 Δv + 0.9 − u² v     for 0 < x < 50, 0 < t < 20
    n·∇u = n·∇v = 0                                               at both ends
    u = 1 + 0.3 sin⁴ (πx/25) for x < 25, else 1,   v = 0.9       at t = 0

Without the spot nothing happens: u = 1, v = 0.9 is a steady state. Waves of a length of about 13 grow on it, as v
diffuses faster than u. The reference is a spectral one: cosines on 128 nodes, LSODA in time.
"""

import jax.numpy as jnp
import numpy as np
from scipy.fft import dct, idct
from scipy.integrate import solve_ivp

import hardpde as hp

LENGTH, NODES, FASTER = 50.0, 128, 20.0


def begin(x):
    return 1 + 0.3 * jnp.where(x < LENGTH / 2, jnp.sin(2 * np.pi * x / LENGTH), 0.0) ** 4


def reactions(u, v):
    return 0.1 - u + u**2 * v, 0.9 - u**2 * v


def spectral(end, snapshots=10):
    """u and v at some equal times up to the end; cosines have no flux at the ends."""
    x = LENGTH * (np.arange(NODES) + 0.5) / NODES
    squares = (np.pi * np.arange(NODES) / LENGTH) ** 2
    second = idct(-squares[:, None] * dct(np.eye(NODES), axis=0), axis=0)

    def slope(t, both):
        u, v = np.split(both, 2)
        du, dv = reactions(u, v)
        return np.concatenate([second @ u + du, FASTER * second @ v + dv])

    times = end * np.arange(1, snapshots + 1) / snapshots
    start = np.concatenate([np.asarray(begin(x)), np.full(NODES, 0.9)])
    u, v = np.split(solve_ivp(slope, (0, end), start, "LSODA", times, rtol=1e-9, atol=1e-11).y, 2)
    return hp.Reference(x[:, None], {"u": u.T, "v": v.T}, times)


def problem(end=20.0):
    def residual(x, q, dq):
        du, dv = reactions(q.u, q.v)
        return hp.dt(dq.u) - hp.laplacian(dq.u) - du, hp.dt(dq.v) - FASTER * hp.laplacian(dq.v) - dv

    return hp.Problem(
        hp.Interval(0, LENGTH, name="ends"), ["u", "v"], residual, time=(0.0, end), name="stripes",
        conditions=[*(hp.neumann("ends", name, 0) for name in "uv"), hp.initial("u", lambda x: begin(x[0])),
                    hp.initial("v", 0.9)], reference=lambda: spectral(end))


if __name__ == "__main__":
    solution = hp.solve(problem(), solver="march", tolerance=1e-4)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}; {solution.decision}")
    solution.picture("u").savefig("stripes.png")
