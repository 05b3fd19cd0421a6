"""The data of the problem robin-holes, for every library.

    −Δu = f                   in the unit square without four discs
    u = 0                     on the sides of the square
    a u + n·∇u = g            on the rims of the discs, n pointing into the disc

The solution is u = sin πx sin 2πy exp x. `m` is the module that computes: numpy, jax.numpy or torch.
"""

HOLES = ((0.25, 0.3), (0.7, 0.25), (0.3, 0.75), (0.72, 0.7))
RADIUS = 0.12
A = 2.0


def solution(x, y, m):
    return m.sin(m.pi * x) * m.sin(2 * m.pi * y) * m.exp(x)


def gradient(x, y, m):
    u_x = (m.sin(m.pi * x) + m.pi * m.cos(m.pi * x)) * m.sin(2 * m.pi * y) * m.exp(x)
    u_y = m.sin(m.pi * x) * 2 * m.pi * m.cos(2 * m.pi * y) * m.exp(x)
    return u_x, u_y


def source(x, y, m):
    """f = −Δu."""
    u_xx = (1 - m.pi**2) * m.sin(m.pi * x) + 2 * m.pi * m.cos(m.pi * x)
    u_yy = -4 * m.pi**2 * m.sin(m.pi * x)
    return -(u_xx + u_yy) * m.sin(2 * m.pi * y) * m.exp(x)


def rim(x, y, hole, m):
    """g at the point (x, y) of the rim of a hole with this centre."""
    u_x, u_y = gradient(x, y, m)
    return A * solution(x, y, m) + ((hole[0] - x) * u_x + (hole[1] - y) * u_y) / RADIUS
