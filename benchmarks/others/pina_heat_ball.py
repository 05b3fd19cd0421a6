"""heat-ball with PINA: the initial values by the model, the sphere as a condition."""

import torch
from heat_ball import DIM, K, solution, source
from pina import Condition, Trainer
from pina.callback import SwitchOptimizer
from pina.domain import CartesianDomain, EllipsoidDomain
from pina.equation import Equation
from pina.model import FeedForward
from pina.operator import grad, laplacian
from pina.optim import TorchOptimizer
from pina.problem import SpatialProblem, TimeDependentProblem
from pina.solver import PhysicsInformedSingleModelSolver

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)

names = [f"x{i}" for i in range(DIM)]
ball = {name: [-1, 1] for name in names}


def heat(x, u):
    u_t = grad(u, x, components=["u"], d=["t"]).tensor
    diffusion = K * laplacian(u, x, components=["u"], d=names).tensor
    return u_t - diffusion - source(x[names].tensor, x["t"].tensor[:, 0], torch)[:, None]


def flux(x, u):
    slope = grad(u, x, components=["u"], d=names).tensor
    normal = x[names].tensor
    return (normal * slope).sum(1, keepdim=True) - solution(normal, x["t"].tensor[:, 0], torch)[:, None]


def points(n, on_sphere):
    """A ball times an interval is no domain of PINA's: its points are put together by hand."""
    x = EllipsoidDomain(ball, sample_surface=on_sphere).sample(n)
    return x.append(CartesianDomain({"t": [0, 1]}).sample(n))


class HeatBall(SpatialProblem, TimeDependentProblem):
    output_variables = ["u"]
    spatial_domain = EllipsoidDomain(ball)
    temporal_domain = CartesianDomain({"t": [0, 1]})
    conditions = {
        "inside": Condition(input=points(1024, on_sphere=False), equation=Equation(heat)),
        "sphere": Condition(input=points(256, on_sphere=True), equation=Equation(flux)),
    }


class InitialValues(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = FeedForward(DIM + 1, 1, layers=[24] * 3, func=torch.nn.Tanh)

    def forward(self, points):
        start = solution(points[names].tensor, 0, torch)[:, None]
        return self.net(points) * points.extract(["t"]) + start


solver = PhysicsInformedSingleModelSolver(
    HeatBall(), InitialValues(), optimizer=TorchOptimizer(torch.optim.Adam, lr=5e-3))


def train(callbacks=()):
    lbfgs = TorchOptimizer(torch.optim.LBFGS, max_iter=50, history_size=100, line_search_fn="strong_wolfe",
                           tolerance_change=0, tolerance_grad=1e-8)
    trainer = Trainer(solver, max_epochs=100_000, accelerator="cpu", enable_progress_bar=False, logger=False,
                      enable_checkpointing=False, callbacks=[SwitchOptimizer(lbfgs, 200), *callbacks])
    trainer.train()
    return solver


if __name__ == "__main__":
    train()
