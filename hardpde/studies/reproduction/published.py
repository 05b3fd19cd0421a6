"""The values of the paper's tables: {table: {row: cells}}, as printed."""

import json
from pathlib import Path

PUBLISHED: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "published.json").read_text())
