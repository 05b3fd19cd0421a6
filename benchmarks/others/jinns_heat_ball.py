"""heat-ball with jinns: the initial values by an output transform, the sphere as the one facet of the boundary."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax
from heat_ball import DIM, K, solution, source
from jinns.data._AbstractDataGenerator import AbstractDataGenerator

jax.config.update("jax_enable_x64", True)


class Points(AbstractDataGenerator):
    """The same points at every step: quasi-Newton methods need a loss that stays what it is."""

    inside: jax.Array
    sphere: jax.Array
    rar_parameters: None = None

    def get_batch(self):
        return self, jinns.data.PDENonStatioBatch(
            domain_batch=self.inside, border_batch=self.sphere, initial_batch=None)


def points(n=1024, n_sphere=256):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n + n_sphere, DIM))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[:n] *= rng.random((n, 1)) ** (1 / DIM)
    t_x = jnp.asarray(np.concatenate([rng.random((n + n_sphere, 1)), x], axis=1))
    return Points(t_x[:n], t_x[n:, :, None])


class Heat(jinns.loss.PDENonStatio):
    def equation(self, t_x, u, params):
        u_t = jax.grad(lambda t_x: u(t_x, params).squeeze())(t_x)[0]
        laplacian = jinns.loss.laplacian_rev(t_x, u, params)
        return jnp.atleast_1d(u_t - K * laplacian - source(t_x[1:], t_x[0], jnp))


class Neumann(jinns.loss.BoundaryConditionAbstract):
    @jinns.loss.equation_on_all_facets_equal
    def equation_u(self, inputs, u, params):
        slope = jax.grad(lambda t_x: u(t_x, params).squeeze())(inputs)[1:]
        return (inputs[1:] @ slope)[None]

    @jinns.loss.equation_on_all_facets_equal
    def equation_f(self, inputs, params, gridify=False):
        return solution(inputs[1:], inputs[0], jnp)[None]


layers = [(eqx.nn.Linear, DIM + 1, 24), (jnp.tanh,), *[(eqx.nn.Linear, 24, 24), (jnp.tanh,)] * 2,
          (eqx.nn.Linear, 24, 1)]
u, weights = jinns.nn.PINN_MLP.create(
    key=jax.random.key(0), eqx_list=layers, eq_type="PDENonStatio",
    output_transform=lambda t_x, out, params: solution(t_x[1:], 0, jnp) + t_x[0] * out)
start = jinns.parameters.Params(nn_params=weights, eq_params={})
loss = jinns.loss.LossPDENonStatio(
    u=u, dynamic_loss=Heat(), boundary_condition=Neumann(), params=start,
    loss_weights=jinns.loss.LossWeightsPDENonStatio(dyn_loss=1.0, boundary_loss=1.0))


def callback_loss(params, loss, batch):
    return loss.evaluate(params, batch)[0]


def callback_gradient(params, loss, batch):
    return jax.grad(lambda params: loss.evaluate(params, batch)[0])(params)


variable = jinns.solver.GetJinnsVariableName
extra = {"value": variable("train_loss_value"), "grad_pt": variable("grads"), "value_fn": callback_loss,
         "grad_fn": callback_gradient, "loss": variable("loss"), "batch": variable("batch")}


def train(validation=lambda stage: None):
    params, *_ = jinns.solve(n_iter=200, init_params=start, data=points(), loss=loss, optimizer=optax.adam(5e-3),
                             validation=validation("adam"), verbose=False)
    params, *_ = jinns.solve(n_iter=100_000, init_params=params, data=points(), loss=loss,
                             optimizer=jinns.optimizers.scale_by_SSBroyden_family(),
                             extra_optax_args_and_kwargs=extra, validation=validation("ssbroyden"), verbose=False)
    return params


if __name__ == "__main__":
    train()
