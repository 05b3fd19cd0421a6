"""heat-ball with DeepXDE: the initial values by an output transform, the sphere as a term of the loss."""

import deepxde as dde
import numpy as np
import torch
from heat_ball import DIM, K, solution, source

dde.config.set_default_float("float64")
dde.config.set_random_seed(0)

ball = dde.geometry.Hypersphere([0.0] * DIM, 1.0)
domain = dde.geometry.GeometryXTime(ball, dde.geometry.TimeDomain(0, 1))


def pde(x, u):
    u_t = dde.grad.jacobian(u, x, j=DIM)
    laplacian = sum(dde.grad.hessian(u, x, i=i, j=i) for i in range(DIM))
    return u_t - K * laplacian - source(x[:, :DIM], x[:, DIM], torch)[:, None]


def known(x):
    return solution(x[:, :DIM], x[:, DIM], np)[:, None]


bc = dde.icbc.NeumannBC(domain, known, lambda x, on_boundary: on_boundary)
data = dde.data.TimePDE(domain, pde, bc, num_domain=1024, num_boundary=256)
net = dde.nn.FNN([DIM + 1] + [24] * 3 + [1], "tanh", "Glorot uniform")
net.apply_output_transform(lambda x, u: solution(x[:, :DIM], 0, torch)[:, None] + x[:, DIM:] * u)
model = dde.Model(data, net)


def train(callbacks=()):
    model.compile("adam", lr=5e-3)
    model.train(iterations=200, callbacks=callbacks, display_every=1000)
    dde.optimizers.set_LBFGS_options(maxiter=100_000)
    model.compile("L-BFGS")
    model.train(callbacks=callbacks)
    return model


if __name__ == "__main__":
    train()
