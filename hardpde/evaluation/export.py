"""Files for ParaView and other viewers: VTU, and a PVD collection of one VTU per time.

The arrays are inline, base64 of zlib-compressed little-endian bytes, which every VTK reader knows.
"""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import ArrayLike

from hardpde.evaluation.base import Solved
from hardpde.evaluation.nodes import Seen, nodes, seen_at
from hardpde.problem.reference import Reference
from hardpde.support.files import replacing

VTK_CELLS = {1: 1, 2: 3, 3: 5, 4: 10}  # nodes of a simplex -> vertex, line, triangle, tetrahedron
VTK_NAMES = {"f8": "Float64", "f4": "Float32", "i4": "Int32", "i8": "Int64", "u1": "UInt8"}


def write_vtu(
    path: str | Path, x: ArrayLike, cells: ArrayLike | None, point_data: Mapping[str, ArrayLike]
) -> None:
    """Write points (n, d), d <= 3, and simplices (c, d+1) with named values (n,), (n, m) at the points.

    Points get zeros up to three coordinates, vectors (n, 2) a third component; without cells every point
    is a vertex, so that a cloud can be seen.
    """
    points = np.asarray(x, float)
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3:
        raise ValueError(f"x has shape {points.shape}; VTU files hold points (n, d) with d = 1, 2 or 3")
    simplices = np.arange(len(points))[:, None] if cells is None else np.asarray(cells)
    if simplices.ndim != 2 or simplices.shape[1] not in VTK_CELLS:
        raise ValueError(f"cells have shape {simplices.shape}; pass simplices (c, d+1) or None")
    count, nodes = simplices.shape
    data = "".join(_array(name, _values(name, value, len(points))) for name, value in point_data.items())
    text = (
        '<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" '
        'header_type="UInt64" compressor="vtkZLibDataCompressor">\n<UnstructuredGrid>\n'
        f'<Piece NumberOfPoints="{len(points)}" NumberOfCells="{count}">\n'
        f"<Points>\n{_array('Points', _padded(points))}</Points>\n"
        f"<Cells>\n{_array('connectivity', simplices.ravel().astype('i4'))}"
        f"{_array('offsets', nodes * np.arange(1, count + 1, dtype='i4'))}"
        f"{_array('types', np.full(count, VTK_CELLS[nodes], 'u1'))}</Cells>\n"
        f"<PointData>\n{data}</PointData>\n</Piece>\n</UnstructuredGrid>\n</VTKFile>\n"
    )
    _write(path, text)


def write_series(
    path_stem: str | Path,
    x: ArrayLike,
    times: ArrayLike,
    cells: ArrayLike | None,
    point_data_by_time: Sequence[Mapping[str, ArrayLike]],
) -> Path:
    """Write STEM_000.vtu, STEM_001.vtu, … and STEM.pvd, the collection ParaView opens as a series in time."""
    stem, instants = Path(path_stem), np.asarray(times, float)
    if instants.shape != (len(point_data_by_time),):
        raise ValueError(
            f"there are {instants.size} times and {len(point_data_by_time)} sets of values; pass as many"
        )
    rows = []
    for i, (t, data) in enumerate(zip(instants, point_data_by_time)):
        name = f"{stem.name}_{i:03d}.vtu"
        write_vtu(stem.with_name(name), x, cells, data)
        rows.append(f'<DataSet timestep="{t:.17g}" part="0" file={quoteattr(name)}/>\n')
    collection = stem.with_name(stem.name + ".pvd")
    _write(
        collection,
        '<?xml version="1.0"?>\n<VTKFile type="Collection" version="1.0" byte_order="LittleEndian">\n'
        f"<Collection>\n{''.join(rows)}</Collection>\n</VTKFile>\n",
    )
    return collection


def _array(name: str, values: np.ndarray) -> str:
    """One DataArray element; its header says one block, its size and its compressed size."""
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    raw = values.tobytes()
    packed = zlib.compress(raw)
    content = base64.b64encode(struct.pack("<4Q", 1, len(raw), 0, len(packed))) + base64.b64encode(packed)
    columns = f' NumberOfComponents="{values.shape[1]}"' if values.ndim == 2 else ""
    kind = VTK_NAMES[values.dtype.str[1:]]
    opening = f'<DataArray type="{kind}" Name={quoteattr(name)}{columns} format="binary">'
    return f"{opening}\n{content.decode()}\n</DataArray>\n"


def _values(name: str, values: ArrayLike, count: int) -> np.ndarray:
    array = np.asarray(values)
    array = array.reshape(len(array), -1) if array.ndim > 2 else array
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"'{name}' has shape {array.shape}, but there are {count} points; pass one value per point"
        )
    if array.dtype.str[1:] not in VTK_NAMES:
        array = array.astype(float)
    return _padded(array) if array.ndim == 2 and array.shape[1] == 2 else array


def _padded(array: np.ndarray) -> np.ndarray:
    return np.pad(array, [(0, 0), (0, 3 - array.shape[1])])


def _write(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def export_vtu(solution: Solved, stem: Path, reference: Reference | None, seen: Seen | None = None) -> Path:
    """VTU files of all fields (and the reference's), with a collection over time; returns the file to open."""
    if (dim := solution.problem.schema.dim) > 3:
        raise ValueError(f"VTU files hold at most three dimensions; the problem has {dim}")
    grid, predicted = seen or seen_at(solution, nodes(solution.problem, reference))
    data = {name: _flat(values, grid.times is not None) for name, values in predicted.items()}
    data |= {f"{name}_reference": _flat(np.asarray(values, float), grid.times is not None)
             for name, values in grid.values.items()}
    if grid.times is None:
        path = stem.with_name(stem.name + ".vtu")
        write_vtu(path, grid.x, grid.cells, data)
        return path
    return write_series(stem, grid.x, grid.times, grid.cells,
                        [{name: values[k] for name, values in data.items()} for k in range(len(grid.times))])


def _flat(values: np.ndarray, timed: bool) -> np.ndarray:
    """Components of a field in one axis."""
    lead = 2 if timed else 1
    return values if values.ndim == lead else values.reshape(*values.shape[:lead], -1)
