"""The words of the command line, and its entry."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

from hardpde.support import interrupts
from hardpde.support.choices import PRESETS, SCHEDULES, SOLVERS
from hardpde.support.files import finite_or_none
from hardpde.support.hardware import first_process

STOPPED = 130
Command = Callable[[argparse.Namespace], dict[str, Any]]  # what it is given is in the words; the result is for --json


def main(words: list[str] | None = None) -> int:
    """Run a command; 0 if it did what was asked, 1 where it found what it looks for wrong, 2 with one sentence for a
    mistake in what was asked."""
    arguments = make_parser().parse_args(words)
    try:
        result = _command(arguments.run)(arguments)
    except ValueError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.strerror or error}: '{error.filename}'" if error.filename else str(error))
    except KeyboardInterrupt:
        interrupts.ignore()
        print(f"\nhardpde: stopped{arguments.after_stop}", file=sys.stderr)
        return STOPPED
    if arguments.json and first_process():
        print(json.dumps(finite_or_none(result)))
    return result.get("status", 0)


def command() -> NoReturn:
    """The command hardpde. Once stopped it ends at once: what other threads compile would hold it up for seconds."""
    interrupts.insist()
    status = main()
    if status == STOPPED:
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _command(name: str) -> Command:
    """A command by its name: all that it needs is loaded only now."""
    return getattr(import_module("hardpde.cli.commands"), name)


def _fail(sentence: str) -> int:
    print(f"hardpde: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _stages(text: str) -> Any:
    try:
        stages = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"the stages are not JSON ({error})") from None
    if stages is None:
        raise argparse.ArgumentTypeError("the stages are null; leave --stages out for those of the preset")
    return stages


def _steps(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of whole numbers like 500,2000") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


class _Parser(argparse.ArgumentParser):
    """Answers a mistake like every other: one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"hardpde: {message}; see `{self.prog} --help`\n")


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hardpde", description="Solve PDEs with neural networks whose conditions hold by construction.")
    parser.add_argument("--version", action="version", version=f"hardpde {version('hardpde')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="print one JSON object as the last line of stdout")
        sub.set_defaults(run=function, after_stop="")
        return sub

    def training(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--checkpoint-every", type=_positive, default=60.0, metavar="SECONDS",
                         help="how often to write a checkpoint (default 60)")
        sub.add_argument("--coordinator", metavar="HOST:PORT", help="where several processes meet: the address of the "
                         "first; each is started with the same command and its own --process")
        sub.add_argument("--processes", type=int, metavar="N", help="how many there are")
        sub.add_argument("--process", type=int, metavar="I", help="which one this is, from 0; 0 writes the run")
        sub.add_argument("--tensorboard", action="store_true",
                         help="write the curves for TensorBoard into RUN/tensorboard; a resumed run goes on with them")
        sub.add_argument("--report", choices=("full", "none"), default="full",
                         help="none: no pictures, no VTU files and no report.html; `hardpde report RUN` writes the "
                              "report later (default full)")

    def option(sub: argparse.ArgumentParser, form: str, text: str) -> None:
        sub.add_argument("--set", type=_setting, action="append", default=[], metavar=form, help=text)

    def settings(sub: argparse.ArgumentParser, form: str, text: str, steps: str = "", preset: str | None = "quick",
                 schedule: str | None = "fair") -> None:
        sub.add_argument("--preset", choices=PRESETS, default=preset, help="of a training (default quick)")
        sub.add_argument("--schedule", choices=SCHEDULES, default=schedule,
                         help="Adam's rate: fair, or as-published, constant for the paper's baselines (default fair)")
        sub.add_argument("--steps", type=_steps, metavar="N,N",
                         help=f"steps of each stage of the preset; 0 leaves one out{steps}")
        option(sub, form, text)

    def problem(sub: argparse.ArgumentParser, default: str | None = None) -> None:
        sub.add_argument("problem", metavar="PROBLEM", nargs="?" if default else None, default=default,
                         help="a built-in name (see `hardpde list`) or a .py file that defines `problem`"
                              + (f" (default {default})" if default else ""))
        sub.add_argument("--with", dest="given", type=_setting, action="append", default=[], metavar="NAME=VALUE",
                         help="an option of the problem, e.g. extra=false or dim=3 (may be repeated)")
        sub.add_argument("--dim", type=int, metavar="D", help="the same as --with dim=D")

    def judged(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--reference", metavar="FILE",
                         help="compare with the values in this file, as `hardpde reference` writes it")

    def of_run(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("folder", metavar="RUN", help="run folder")
        sub.add_argument("--problem", metavar="FILE", help="the file of its problem, needed where the folder came from "
                         "elsewhere: code that it names is run only if you have run it before, or name it")
        sub.add_argument("--changed", action="store_true", help="take run.json and the file of the problem as they "
                         "are, though they were changed since the run began")

    command("list", "list_command", "problems and methods, one line each")

    sub = command("check", "check_command",
                  "whether the problem is well posed; draw the domain and certify every condition with random networks")
    problem(sub)
    sub.add_argument("--method", default="exact", help="which ansatz to certify (default exact)")
    option(sub, "NAME=VALUE", "an option of the method, e.g. gradients=fields (may be repeated)")
    sub.add_argument("--seed", type=int, default=0, help="of the random networks (default 0)")
    sub.add_argument("--picture", metavar="FILE", help="where to draw the domain (default PROBLEM-domain.png)")

    sub = command("solve", "solve_command", "solve a problem and write a run folder")
    problem(sub)
    judged(sub)
    sub.add_argument("--method", default="exact", help="(default exact)")
    settings(sub, "NAME=VALUE", "an option of the method, e.g. width=64 or beta_s=10 (may be repeated)",
             preset=None, schedule=None)
    sub.add_argument("--seed", type=int, default=0, help="(default 0)")
    sub.add_argument("--out", metavar="DIR", help="run folder (default runs/PROBLEM-METHOD-PRESET-SEED)")
    sub.add_argument("--force", action="store_true", help="replace an earlier run in that folder")
    sub.add_argument("--devices", type=int, metavar="N",
                     help="how many devices share the points of a training, or the rows of a direct solve (default: "
                          "one GPU, the cores of a CPU, or all devices of several processes)")
    sub.add_argument("--stages", type=_stages, metavar="JSON", help="stages in place of the preset's, e.g. "
                     """'[{"optimiser": "adam", "steps": 500}, {"optimiser": "levenberg_marquardt", "steps": 100}]'""")
    sub.add_argument("--solver", choices=SOLVERS, default="auto",
                     help="train the network; direct: find the last layer of features that stay, by least squares; "
                          "march: the same at every instant of a problem with time; "
                          "auto: directly, with training where that is not enough, unless a preset or anything else is "
                          "stated that only a training takes (default auto)")
    sub.add_argument("--tolerance", type=_positive, default=1e-4, metavar="T",
                     help="what is asked of the residual on held-out points, in units of the equations' terms, and of "
                          "the change of the fields with more features (default 1e-4)")
    sub.add_argument("--seconds", type=_positive, metavar="S", help="nothing is begun that would take longer")
    sub.add_argument("--strict", action="store_true",
                     help="refuse a problem that is not well posed, which is otherwise said and solved all the same")
    training(sub)

    sub = command("compare", "compare_command", "train several methods with several seeds, side by side")
    problem(sub)
    judged(sub)
    sub.add_argument("--methods", type=_names, default=["exact", "hc", "pinn"], metavar="A,B",
                     help="methods to compare, or all (default exact,hc,pinn; see `hardpde list`); direct: exact, "
                          "solved directly, with --set direct.tolerance=T")
    sub.add_argument("--seeds", type=int, default=5, metavar="N", help="how many, trained at once (default 5)")
    settings(sub, "METHOD.NAME=VALUE", "an option of one method, or NAME=VALUE of all that know it (may be repeated)",
             "; a method with fewer stages takes the first numbers")
    sub.add_argument("--out", metavar="DIR", help="folder (default runs/compare-PROBLEM-PRESET)")
    earlier = sub.add_mutually_exclusive_group()
    earlier.add_argument("--force", action="store_true", help="replace an earlier comparison in that folder")
    earlier.add_argument("--resume", action="store_true", help="go on with it: methods that are done are kept")
    sub.set_defaults(after_stop="; the same command with --resume goes on, and keeps the methods that are done")

    sub = command("reproduce", "reproduce_command", "the tables and figures of the paper, its values beside ours")
    sub.add_argument("experiments", nargs="+", metavar="NAME", help="table1 … table10, fig4 … fig7, theory, or all")
    sub.add_argument("--quick", action="store_true",
                     help="about a minute each on two cores: shows that it works; the figures mean nothing")
    sub.add_argument("--jobs", type=int, default=1, metavar="N",
                     help="so many trainings at a time, each in a process of its own (default 1)")
    sub.add_argument("--out", metavar="DIR", help="folder (default reproduction, or reproduction-quick)")
    sub.set_defaults(after_stop="; the same command goes on, and keeps the trainings that are done")

    sub = command("bench", "bench_command", "time a training step against what this machine could do")
    problem(sub, "battery-pack")
    sub.add_argument("--method", help="(default hc; with --start exact)")
    sub.add_argument("--preset", choices=PRESETS, help="(default paper; with --start quick)")
    sub.add_argument("--start", action="store_true",
                     help="time what is no training instead: imports, checks, compilation, evaluation, report")
    sub.add_argument("--points", type=int, metavar="N", help="points of a step, in place of the preset's")
    sub.add_argument("--solve", action="store_true", help="time a whole solve too; without, it is estimated")
    sub.add_argument("--out", metavar="FILE", help="write the figures as JSON")

    sub = command("reference", "reference_command", "a reference, by finite elements or from the known solution")
    problem(sub)
    sub.add_argument("--digits", type=int, metavar="N",
                     help="finite elements are refined until two levels agree to so many (default 3); given, they are "
                          "used for a problem with a known solution too")
    sub.add_argument("--level", type=int, metavar="L",
                     help="of refinement, for battery-pack and airfoil, which have elements of their own (default 2)")
    sub.add_argument("--out", metavar="FILE", help="(default PROBLEM-reference.npz)")
    sub.add_argument("--force", action="store_true", help="replace the file")

    sub = command("resume", "resume_command", "go on with a run that was interrupted")
    of_run(sub)
    training(sub)

    sub = command("report", "report_command", "write the report of a finished run again")
    of_run(sub)

    sub = command("export", "export_command", "write VTU files of a finished run for ParaView")
    of_run(sub)
    sub.add_argument("--vtu", action="store_true", help="the format; VTU is the only one")
    sub.add_argument("--out", metavar="FILE", help="(default solution.vtu or solution.pvd in the run folder)")
    return parser


if __name__ == "__main__":
    command()
