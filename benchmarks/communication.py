"""What programs communicate, beside the best plan by hand, XLA and DTensor.

    python -m benchmarks.communication [program.mlir ...] [--programs DIR] [--peers all]

For each kind of collective its count and the bytes that a device moves, by the cost model; the
products are their flops on all devices over those of the unsharded program. Nothing is run: ours
are read from the local form, XLA's from what it compiles for CPUs, DTensor's as its collectives are
called. What a peer cannot do is n/a, with its reason. docs/communication.md says more.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks import hlo, ours
from benchmarks.tally import COSTS, Tally

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT.parent / "shared" / "programs"

BY_HAND = {
    "a_mlp_1d": 786_432,
    "b_mlp_2d": 917_504,
    "c_megatron_fwd": 393_216,
    "f_moe_ep": 114_688,
    "g_conv_halo": 32_832,
    "i1_embed_xent_fwd": 201_220,
    "j1_split_merge": 0,
    "k1_uneven_vocab": 29_568,
    "n_megatron_sp_fwd": 393_216,
}
"""Bytes moved per device by the best plan that was found by hand, by the name of the file. Each of
these programs is written in torch, too, in `dtensor_peer`."""
PEERS = {"xla": "jaxlib", "torch": "torch"}
TIMEOUT = 300


@dataclass(frozen=True)
class Row:
    """What one compiler makes of a program, or why nothing."""

    who: str
    tally: Tally | None
    reason: str = ""


def rows_of(path: Path, peers: list[str]) -> tuple[list[Row], ours.Ours]:
    """Ours first, then the peers."""
    mine = ours.count(path)
    rows = [Row("ours", mine.tally, mine.error)]
    if "xla" in peers:
        rows += [xla(path, "shardy"), xla(path, "gspmd")]
    if "torch" in peers:
        rows.append(dtensor(name_of(path)))
    return rows, mine


def xla(path: Path, partitioner: str) -> Row:
    who = {"shardy": "XLA, Shardy", "gspmd": "XLA, GSPMD"}[partitioner]
    return _from_child(who, ["benchmarks.xla_peer", str(path.resolve()), partitioner], hlo.tally_of)


def dtensor(name: str) -> Row:
    if name not in BY_HAND:
        return Row("DTensor", None, "not written in torch")
    return _from_child("DTensor", ["benchmarks.dtensor_peer", name], _of_json)


def _from_child(who: str, module: list[str], read: Callable[[str], Tally]) -> Row:
    """A process of its own: peers take flags when they are loaded, and may end it."""
    command = [sys.executable, "-m", *module]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode:
            return Row(who, None, (done.stderr.strip().splitlines() or ["it was killed"])[-1])
        return Row(who, read(done.stdout))
    except (subprocess.TimeoutExpired, ValueError) as error:
        return Row(who, None, str(error))


def _of_json(text: str) -> Tally:
    found = json.loads(text.splitlines()[-1])
    if "error" in found:
        raise ValueError(found["error"])
    return Tally(
        Counter(found["count"]),
        Counter(found["moved"]),
        flops=found["flops"],
        notes=found["notes"],
    )


def name_of(path: Path) -> str:
    return path.name.split(".")[0]


def found_in(folder: Path) -> list[Path]:
    """One file a program: the generic form, which needs no Shardy to be read, if it is there."""
    found = {name_of(path): path for path in sorted(folder.glob("*.mlir"), key=_is_generic)}
    return [found[name] for name in sorted(found)]


def _is_generic(path: Path) -> bool:
    return path.name.endswith(".generic.mlir")


def table(results: list[tuple[str, list[Row], ours.Ours]]) -> str:
    tallies = [row.tally for _, rows, _ in results for row in rows if row.tally]
    used = {kind for tally in tallies for kind in tally.count}
    kinds = [*(kind for kind in COSTS if kind in used), *sorted(used - set(COSTS))]
    lines: list[list[str]] = []
    notes: list[str] = []
    for name, rows, mine in results:
        by_hand = BY_HAND.get(name)
        first = len(lines)
        if by_hand is not None:
            lines.append(["", "by hand", *[""] * len(kinds), f"{by_hand:,}", "", ""])
        for row in rows:
            found = _notes(row, by_hand)
            notes += [note for note in found if note not in notes]
            marks = "".join(f" [{notes.index(note) + 1}]" for note in found)
            lines.append(["", row.who + marks, *_cells(row.tally, kinds, by_hand, mine)])
        lines[first][0] = name
    head = ["program", "", *kinds, "bytes moved", "over hand", "products"]
    align = ("left", "left", *["right"] * (len(head) - 2))
    text = tabulate(lines, head, disable_numparse=True, colalign=align)
    return "\n".join([text, *(f"[{number}] {note}" for number, note in enumerate(notes, 1))])


def _notes(row: Row, by_hand: int | None) -> list[str]:
    if row.tally is None:
        return [row.reason]
    if by_hand is not None and row.tally.bytes_moved < by_hand:
        return [*row.tally.notes, "fewer bytes than the plan by hand"]
    return row.tally.notes


def _cells(
    tally: Tally | None, kinds: list[str], by_hand: int | None, mine: ours.Ours
) -> list[str]:
    if tally is None:
        return [*[""] * len(kinds), "n/a", "", ""]
    each = [f"{tally.count[k]}: {tally.moved[k]:,}" if tally.count[k] else "" for k in kinds]
    products = ""
    if mine.flops and tally.knows_flops:
        products = f"{tally.flops * mine.devices / mine.flops:.2f}"
    return [*each, f"{tally.bytes_moved:,}", _over(tally.bytes_moved, by_hand), products]


def _over(bytes_moved: int, by_hand: int | None) -> str:
    if by_hand is None:
        return ""
    if not by_hand:
        return "inf" if bytes_moved else "1.00"
    return f"{bytes_moved / by_hand:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", type=Path, help="modules; by default those of --programs"
    )
    parser.add_argument("--programs", type=Path, default=PROGRAMS, metavar="DIR")
    parser.add_argument("--peers", choices=["none", *PEERS, "all"], default="all")
    options = parser.parse_args()
    paths = options.files or found_in(options.programs)
    if not paths:
        parser.error(f"there are no programs in {options.programs}: name files, or --programs DIR")
    wanted = [peer for peer in PEERS if options.peers in (peer, "all")]
    missing = [peer for peer in wanted if importlib.util.find_spec(PEERS[peer]) is None]
    peers = [peer for peer in wanted if peer not in missing]
    print(table([(name_of(path), *rows_of(path, peers)) for path in paths]))
    for peer in missing:
        print(f"{PEERS[peer]} is not installed: nothing of it to compare with")


if __name__ == "__main__":
    main()
