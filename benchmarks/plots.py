"""Draws the pictures of two benchmarks from the figures that they wrote.

    python -m benchmarks.replay --json FOLDER/replay.json
    python -m benchmarks.planning --json FOLDER/planning.json
    python -m benchmarks.plots FOLDER [--pictures docs/pictures]

Needs matplotlib (`pip install -e ".[plots]"`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from benchmarks.figures import read_figures

STOCK, ETC = "#8a8a8a", "#1f6feb"
MARKS = "osD^v<>ph*XP"
_HOUR = 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the figures are")
    parser.add_argument("--pictures", type=Path, help="where the pictures go (default: beside the figures)")
    given = parser.parse_args()
    pictures = given.pictures or given.folder
    pictures.mkdir(parents=True, exist_ok=True)
    bytes_against_lag(read_figures(given.folder / "replay.json")["rows"], pictures / "bytes-against-lag.png")
    plan_time(read_figures(given.folder / "planning.json"), pictures / "plan-time.png")


def bytes_against_lag(rows: list[dict[str, Any]], picture: Path) -> None:
    """A panel for each workload, a mark for each way to compact; nearer to the corner is better."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    marks = dict(zip(dict.fromkeys(row["way"] for row in rows), MARKS, strict=False))
    figure, panels = plt.subplots(1, len(workloads), figsize=(3.6 * len(workloads) + 2.8, 3.6), squeeze=False)
    for panel, workload in zip(panels[0], workloads, strict=True):
        for row in (row for row in rows if row["workload"] == workload):
            at = (row["lag_max_ms"] / _HOUR, row["bytes_written"] / 2**20)
            color = ETC if row["way"].startswith("etc") else STOCK
            panel.scatter(*at, color=color, marker=marks[row["way"]], s=55, zorder=2, label=row["way"])
        panel.set(title=workload, xlabel="worst lag of RO, hours", xlim=(0, None), ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("MiB that compaction wrote in a day")
    panels[0][-1].legend(
        *panels[0][0].get_legend_handles_labels(), fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1)
    )
    _save(figure, picture)


def plan_time(tables: list[dict[str, Any]], picture: Path) -> None:
    """A line for stock Hudi's schedule, and for `etc plan` at first and again."""
    figure, panel = plt.subplots(figsize=(5.2, 3.6))
    kinds = {
        "stock": ("stock Hudi schedules", STOCK),
        "cold": ("etc plan, the first", ETC),
        "warm": ("etc plan, the next", ETC),
    }
    for kind, (name, color) in kinds.items():
        found = [
            (table["commits"] * table["file_groups"], table[kind]["wall_seconds"]) for table in tables if kind in table
        ]
        style = "--" if kind == "warm" else "-"
        panel.plot(*zip(*found, strict=True), marker="o", color=color, linestyle=style, label=name)
    panel.set(xscale="log", yscale="log", xlabel="log files", ylabel="seconds, whole process")
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8)
    _save(figure, picture)


def _save(figure: Any, picture: Path) -> None:
    figure.tight_layout()
    figure.savefig(picture, dpi=130, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
