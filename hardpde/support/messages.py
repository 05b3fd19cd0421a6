"""What is said of an error that somebody else raised: in which line of a user's function, and what to write instead."""

import linecache
import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OWN = Path(__file__).resolve().parents[1]
_LIBRARIES = {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")}
# What JAX calls a mistake, and what that means to who wrote the function
_MEANT = {
    "TracerBoolConversionError": "`if`, `and`, `or`, `min` and `max` cannot depend on x or on fields, whose values are "
                                 "not known yet; write jnp.where(condition, a, b), jnp.minimum or jnp.maximum",
    "TracerArrayConversionError": "NumPy cannot compute with x or with fields, whose values are not known yet; write "
                                  "jnp in place of np (import jax.numpy as jnp)",
    "TracerIntegerConversionError": "a whole number or an index cannot depend on x or on fields, whose values are not "
                                    "known yet; write jnp.where or jnp.take",
    "ConcretizationTypeError": "float(…), int(…) and the functions of math cannot take x or fields, whose values are "
                               "not known yet; write jnp in place of them (import jax.numpy as jnp)",
    "UnexpectedTracerError": "a value of an earlier call was kept and used again; compute it from x in the function",
}


def first_line(error: BaseException) -> str:
    """The first line of an error's words; its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def in_ones_words(error: BaseException) -> str:
    """What went wrong in a user's function in words that its user knows, and at which line of which file."""
    kind = type(error).__name__
    line, place = _line_of(error)
    if kind in _MEANT:
        said = _MEANT[kind]
    elif isinstance(error, ValueError):
        said = _with_fields(first_line(error), line)
    else:
        said = f"{kind}: {first_line(error)}"
    return said + place


def _with_fields(said: str, line: str) -> str:
    """The sentence of an operator that takes derivatives, with the words to write instead in this line."""
    found = re.match(r"(\w+) takes derivatives", said)
    call = found and re.search(rf"((?:\w+\.)?{found[1]})\(\s*(\w+)\.(\w+)", line)
    return f"{found[1]} takes derivatives: {call[1]}(d{call[2]}.{call[3]})" if found and call else said


def _line_of(error: BaseException) -> tuple[str, str]:
    """The innermost line that no library has written, and where it is in words; nothing where there is none."""
    trace, line, place = error.__traceback__, "", ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<") and not _is_library(name):
            line = linecache.getline(name, trace.tb_lineno).strip()
            place = f" ({Path(name).name}, line {trace.tb_lineno}" + (f": {line[:80]})" if line else ")")
        trace = trace.tb_next
    return line, place


def _is_library(name: str) -> bool:
    path = Path(name).resolve()
    parents = {str(parent) for parent in path.parents}
    return _OWN in path.parents or bool(_LIBRARIES & parents) or "site-packages" in path.parts


@contextmanager
def evaluating(what: str) -> Iterator[None]:
    """What a user's function raises in here is a ValueError of one sentence about it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {in_ones_words(error)}") from None
    except Exception as error:
        raise ValueError(f"{what} cannot be evaluated: {in_ones_words(error)}") from None
