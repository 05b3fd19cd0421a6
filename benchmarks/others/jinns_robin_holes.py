"""robin-holes with jinns: u = 0 on the sides by an output transform, the rims as facets of the boundary."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax
from jinns.data._AbstractDataGenerator import AbstractDataGenerator
from robin_holes import HOLES, RADIUS, A, rim, source

jax.config.update("jax_enable_x64", True)


class Points(AbstractDataGenerator):
    """The same points at every step: quasi-Newton methods need a loss that stays what it is."""

    inside: jax.Array
    rims: jax.Array
    rar_parameters: None = None

    def get_batch(self):
        return self, jinns.data.PDEStatioBatch(domain_batch=self.inside, border_batch=self.rims)


def points(n=2048, n_rim=128):
    rng = np.random.default_rng(0)
    x = rng.random((3 * n, 2))
    x = x[np.all([np.linalg.norm(x - hole, axis=1) > RADIUS for hole in HOLES], axis=0)][:n]
    angle = rng.uniform(0, 2 * np.pi, (n_rim, len(HOLES)))
    rims = np.transpose(HOLES) + RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return Points(jnp.asarray(x), jnp.asarray(rims))


class Poisson(jinns.loss.PDEStatio):
    def equation(self, x, u, params):
        return jnp.atleast_1d(jinns.loss.laplacian_rev(x, u, params) + source(x[0], x[1], jnp))


class Robin(jinns.loss.BoundaryConditionAbstract):
    def equation_u(self, inputs, u, params):
        def row(x, hole):
            slope = jax.grad(lambda x: u(x, params).squeeze())(x)
            return A * u(x, params) + (jnp.asarray(hole) - x) @ slope / RADIUS

        return tuple(row(inputs[:, k], hole) for k, hole in enumerate(HOLES))

    def equation_f(self, inputs, params, gridify=False):
        return tuple(rim(*inputs[:, k], hole, jnp)[None] for k, hole in enumerate(HOLES))


layers = [(eqx.nn.Linear, 2, 24), (jnp.tanh,), *[(eqx.nn.Linear, 24, 24), (jnp.tanh,)] * 3, (eqx.nn.Linear, 24, 1)]
u, weights = jinns.nn.PINN_MLP.create(
    key=jax.random.key(0), eqx_list=layers, eq_type="PDEStatio",
    output_transform=lambda x, out, params: 16 * x[0] * (1 - x[0]) * x[1] * (1 - x[1]) * out)
start = jinns.parameters.Params(nn_params=weights, eq_params={})
loss = jinns.loss.LossPDEStatio(
    u=u, dynamic_loss=Poisson(), boundary_condition=Robin(), params=start,
    loss_weights=jinns.loss.LossWeightsPDEStatio(dyn_loss=1.0, boundary_loss=10.0))


def callback_loss(params, loss, batch):
    return loss.evaluate(params, batch)[0]


def callback_gradient(params, loss, batch):
    return jax.grad(lambda params: loss.evaluate(params, batch)[0])(params)


variable = jinns.solver.GetJinnsVariableName
extra = {"value": variable("train_loss_value"), "grad_pt": variable("grads"),
         "value_fn": callback_loss, "grad_fn": callback_gradient, "loss": variable("loss"), "batch": variable("batch")}


def train(validation=lambda stage: None):
    params, *_ = jinns.solve(n_iter=200, init_params=start, data=points(), loss=loss, optimizer=optax.adam(5e-3),
                             validation=validation("adam"), verbose=False)
    params, *_ = jinns.solve(n_iter=100_000, init_params=params, data=points(), loss=loss,
                             optimizer=jinns.optimizers.scale_by_SSBroyden_family(),
                             extra_optax_args_and_kwargs=extra, validation=validation("ssbroyden"), verbose=False)
    return params


if __name__ == "__main__":
    train()
