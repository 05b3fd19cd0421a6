"""robin-holes with DeepXDE: u = 0 on the sides by an output transform, the rims as terms of the loss."""

import deepxde as dde
import numpy as np
import torch
from robin_holes import HOLES, RADIUS, A, rim, source

dde.config.set_default_float("float64")
dde.config.set_random_seed(0)

disks = [dde.geometry.Disk(hole, RADIUS) for hole in HOLES]
domain = dde.geometry.Rectangle([0, 0], [1, 1]) - ((disks[0] | disks[1]) | (disks[2] | disks[3]))


def pde(x, u):
    u_xx = dde.grad.hessian(u, x, i=0, j=0)
    u_yy = dde.grad.hessian(u, x, i=1, j=1)
    return u_xx + u_yy + source(x[:, :1], x[:, 1:], torch)


def robin(hole, disk):
    return dde.icbc.RobinBC(
        domain,
        lambda x, u: torch.as_tensor(rim(x[:, :1], x[:, 1:], hole, np)) - A * u,
        lambda x, on_boundary: on_boundary and disk.on_boundary(x),
    )


bcs = [robin(hole, disk) for hole, disk in zip(HOLES, disks)]
data = dde.data.PDE(domain, pde, bcs, num_domain=2048, num_boundary=1024)
net = dde.nn.FNN([2] + [24] * 4 + [1], "tanh", "Glorot uniform")
net.apply_output_transform(lambda x, u: x[:, :1] * (1 - x[:, :1]) * x[:, 1:] * (1 - x[:, 1:]) * 16 * u)
model = dde.Model(data, net)


def train(callbacks=()):
    weights = [1] + [10] * len(bcs)
    model.compile("adam", lr=5e-3, loss_weights=weights)
    model.train(iterations=200, callbacks=callbacks, display_every=1000)
    dde.optimizers.set_LBFGS_options(maxiter=100_000)
    model.compile("L-BFGS", loss_weights=weights)
    model.train(callbacks=callbacks)
    return model


if __name__ == "__main__":
    train()
