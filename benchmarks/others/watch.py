"""How each library is watched while it trains: the hooks that it has itself, and nothing of the problem.

`train(library, user, watch)` trains what a user's file states until it ends or the time is up, and tells what came out.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

CALL_EVERY = 10  # steps of jinns between two calls of its validation


class TimeIsUp(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Trained:
    """state(x): u (n,) and its derivatives (n, coordinates) at points x (n, coordinates), time last."""

    state: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    weights: int
    dtype: str
    backend: str
    why: str


def prepare(library: str) -> None:
    """What must be there before a user's file is read, and is not timed: the library itself."""
    if library == "deepxde":
        os.environ["DDE_BACKEND"] = "pytorch"
        import deepxde  # noqa: F401
    elif library == "pina":
        import pina.solver  # noqa: F401
    elif library == "jinns":
        import jinns  # noqa: F401
    else:
        import hardpde  # noqa: F401


def train(library: str, user: Any, watch: Any) -> Trained:
    return {"hardpde": hardpde, "deepxde": deepxde, "jinns": jinns, "pina": pina}[library](user, watch)


def hardpde(user: Any, watch: Any, settings: dict[str, Any] | None = None) -> Trained:
    """What `hardpde.solving.solve(user.problem)` does; the model is seen whenever new points are drawn for it."""
    import jax

    from hardpde.networks.mlp import count
    from hardpde.solving.settings import make_formulation, make_settings
    from hardpde.solving.solve import run

    settings = settings or make_settings(user.problem, "exact", "quick", 0, devices=None)
    formulation = make_formulation(user.problem, settings)
    inner = formulation.problem.schema
    seen: list[Any] = []

    def draw(key, model):
        if isinstance(key, jax.core.Tracer):  # it is looked at, not drawn
            return formulation.draw(key, model)
        seen[:] = [model]
        if watch.due():
            watch.look(lambda x: np.asarray(formulation.predict(model, x))[:, inner.slices["u"]].ravel())
        return formulation.draw(key, model)

    def report(record: dict) -> None:
        if watch.step(record["stage"], record["step"]):
            raise TimeIsUp

    try:
        solution = run(user.problem, settings, report=report, formulation=dataclasses.replace(formulation, draw=draw))
        model, why = solution.training.model, solution.training.endings[-1]["why"]
    except TimeIsUp:
        model, why = seen[0], "the time was up"

    def state(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part = np.asarray(formulation.jet(model, x))[:, inner.slices["u"]][:, 0]
        return part[:, 0], part[:, 1 : 1 + inner.coordinates]

    return Trained(state, count(model), str(np.dtype(formulation.dtype)), f"jax {jax.__version__}", why)


def deepxde(user: Any, watch: Any) -> Trained:
    import deepxde as dde
    import torch

    # Iterations of L-BFGS in one call of PyTorch's; it goes on where it was, so that the steps are the same.
    dde.optimizers.LBFGS_options.update(iter_per_step=50, fun_per_step=62)

    class Look(dde.callbacks.Callback):
        def on_train_begin(self) -> None:
            self.before = self.model.train_state.step

        def on_batch_end(self) -> None:
            stop = watch.step(self.model.opt_name, self.model.train_state.step - self.before)
            if watch.due():
                watch.look(lambda x: self.model.predict(x).ravel())
            self.model.stop_training = self.model.stop_training or stop

    model = user.train([Look()])

    def state(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = torch.as_tensor(x).requires_grad_()
        u = model.net(points)
        (slope,) = torch.autograd.grad(u.sum(), points)
        return u.detach().numpy().ravel(), slope.numpy()

    why = "the time was up" if model.stop_training else "L-BFGS ended by itself"
    return Trained(state, _torch_weights(model.net), _torch_dtype(model.net), f"torch {torch.__version__}", why)


def pina(user: Any, watch: Any) -> Trained:
    import torch
    from lightning.pytorch.callbacks import Callback
    from pina import LabelTensor

    solver = user.solver
    labels = solver.problem.input_variables

    def predict(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return solver(LabelTensor(torch.as_tensor(x), labels)).tensor.numpy().ravel()

    class Look(Callback):
        def on_train_batch_end(self, trainer, *_) -> None:
            optimiser = trainer.optimizers[0]
            taken = next(iter(optimiser.state.values())) if optimiser.state else {}
            step = taken.get("n_iter", trainer.global_step)
            trainer.should_stop = watch.step(type(optimiser).__name__, int(step))
            self.stopped = trainer.should_stop
            if watch.due():
                watch.look(predict)

    look = Look()
    user.train([look])

    def state(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = torch.as_tensor(x).requires_grad_()
        u = solver(LabelTensor(points, labels)).tensor
        (slope,) = torch.autograd.grad(u.sum(), points)
        return u.detach().numpy().ravel(), slope.numpy()

    why = "the time was up" if look.stopped else "all epochs were taken"
    return Trained(state, _torch_weights(solver), _torch_dtype(solver), f"torch {torch.__version__}", why)


def jinns(user: Any, watch: Any) -> Trained:
    """jinns trains in one compiled loop and calls back by its validation module; errors are computed in the loop."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jax.experimental import io_callback
    from jinns.validation import AbstractValidationModule

    timed = user.u.eq_type == "PDENonStatio"
    flag = jax.ShapeDtypeStruct((), bool)

    def one(params: Any, x: jax.Array) -> jax.Array:
        return user.u(jnp.roll(x, 1) if timed else x, params).squeeze()  # jinns has time first

    class Look(AbstractValidationModule):
        stage: str = eqx.field(static=True, default="")
        call_every: int = CALL_EVERY

        def __call__(self, params):
            calls = [0]

            def step(_) -> np.ndarray:
                watch.step(self.stage, 1 + CALL_EVERY * calls[0])
                calls[0] += 1
                return np.asarray(watch.due())

            def look(error) -> np.ndarray:
                watch.note(float(error))
                return np.asarray(watch.stopped)

            # The step waits for the weights, the error for the step: what the clock sees is in this order.
            due = io_callback(step, flag, jax.tree.leaves(params)[0].ravel()[0])

            def error(_) -> jax.Array:
                found = jax.vmap(one, (None, 0))(params, jnp.asarray(watch.x))
                return jnp.linalg.norm(found - watch.known) / np.linalg.norm(watch.known)

            stop = jax.lax.cond(due, lambda _: io_callback(look, flag, error(None)), lambda _: jnp.asarray(False), None)
            return self, stop, jnp.zeros(()), False

    params = user.train(lambda stage: Look(stage=stage))

    def state(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u, slope = jax.vmap(jax.value_and_grad(one, 1), (None, 0))(params, jnp.asarray(x))
        return np.asarray(u), np.asarray(slope)

    leaves = jax.tree.leaves(params)
    why = "the time was up" if watch.stopped else "the optimiser ended by itself"
    return Trained(state, sum(a.size for a in leaves), str(leaves[0].dtype), f"jax {jax.__version__}", why)


def _torch_weights(net: Any) -> int:
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


def _torch_dtype(net: Any) -> str:
    return str(next(iter(net.parameters())).dtype).removeprefix("torch.")
