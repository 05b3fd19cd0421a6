"""robin-holes with PINA: u = 0 on the sides by the model, the rims as conditions."""

import torch
from pina import Condition, Trainer
from pina.callback import SwitchOptimizer
from pina.domain import CartesianDomain, Difference, EllipsoidDomain
from pina.equation import Equation
from pina.model import FeedForward
from pina.operator import grad, laplacian
from pina.optim import TorchOptimizer
from pina.problem import SpatialProblem
from pina.solver import PhysicsInformedSingleModelSolver
from pina.weighting import ScalarWeighting
from robin_holes import HOLES, RADIUS, A, rim, source

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)


def poisson(x, u):
    return laplacian(u, x, components=["u"], d=["x", "y"]) + source(x["x"].tensor, x["y"].tensor, torch)


def robin(hole):
    def residual(x, u):
        slope = grad(u, x, components=["u"], d=["x", "y"]).tensor
        normal = (torch.tensor(hole) - x.tensor) / RADIUS
        flux = (normal * slope).sum(1, keepdim=True)
        return A * u.tensor + flux - rim(x["x"].tensor, x["y"].tensor, hole, torch)

    return Equation(residual)


def disk(hole, sample_surface=False):
    return EllipsoidDomain({name: [centre - RADIUS, centre + RADIUS] for name, centre in zip("xy", hole)},
                           sample_surface=sample_surface)


class RobinHoles(SpatialProblem):
    output_variables = ["u"]
    spatial_domain = CartesianDomain({"x": [0, 1], "y": [0, 1]})
    domains = {
        "inside": Difference([spatial_domain, *map(disk, HOLES)]),
        **{f"rim{k}": disk(hole, sample_surface=True) for k, hole in enumerate(HOLES)},
    }
    conditions = {
        "inside": Condition(domain="inside", equation=Equation(poisson)),
        **{f"rim{k}": Condition(domain=f"rim{k}", equation=robin(hole)) for k, hole in enumerate(HOLES)},
    }


rims = [f"rim{k}" for k in range(len(HOLES))]
problem = RobinHoles()
problem.discretise_domain(2048, "random", domains="inside")
problem.discretise_domain(128, "random", domains=rims)


class ZeroOnSides(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = FeedForward(2, 1, layers=[24] * 4, func=torch.nn.Tanh)

    def forward(self, points):
        x, y = points.extract(["x"]), points.extract(["y"])
        return 16 * x * (1 - x) * y * (1 - y) * self.net(points)


solver = PhysicsInformedSingleModelSolver(
    problem, ZeroOnSides(), optimizer=TorchOptimizer(torch.optim.Adam, lr=5e-3),
    weighting=ScalarWeighting(dict.fromkeys(rims, 10)))


def train(callbacks=()):
    lbfgs = TorchOptimizer(torch.optim.LBFGS, max_iter=50, history_size=100, line_search_fn="strong_wolfe",
                           tolerance_change=0, tolerance_grad=1e-8)
    trainer = Trainer(solver, max_epochs=100_000, accelerator="cpu", enable_progress_bar=False, logger=False,
                      enable_checkpointing=False, callbacks=[SwitchOptimizer(lbfgs, 200), *callbacks])
    trainer.train()
    return solver


if __name__ == "__main__":
    train()
