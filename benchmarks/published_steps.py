"""Training steps that others have published, and what the device models say of them.

    python -m benchmarks.published_steps              the table of docs/device-models.md
    python -m benchmarks.published_steps 1.7B 1T      these rows
    python -m benchmarks.published_steps 1T --write step.mlir

Each row is a decoder of `benchmarks.pipelined_decoder` with the sizes, the grid and the batch of
the publication. Its time is that of the report, as written, where the publication does not overlap
the collectives of tensor parallelism, and overlapped for MaxText, whose script has XLA overlap
gathers. The published time follows from the published rate, by the formula of operations that the
publication gives.

* Narayanan and others, Efficient Large-Scale Language Model Training on GPU Clusters Using
  Megatron-LM, SC21, table 1; microbatches and chunks are those of `examples/sc21/run_table_1.sh` in
  Megatron-LM. All activations are recomputed, which the rate counts; there is no dropout.
* The Llama 3 Herd of Models, 2024, table 4: 16.8 M tokens a step. Attention is in blocks of 512
  queries and keys (1,024 in the long step), recomputed as are norms and activations; the state of
  the optimizer is split among replicas.
* MaxText, getting_started/Run_Llama2.md, 2024: utilization on 64 and 256 chips. The batch, the
  length and what is kept are those of its scripts for v5p and v5e; for v4 it has none.
* DeepSeek-V3 Technical Report, 2024: 180,000 hours of an H800 for 10^12 tokens, on 2,048 of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import jax.numpy as jnp
from tabulate import tabulate

import shard_dialect as sd
from benchmarks.pipelined_decoder import AXES, LLAMA_405B, Decoder, Experts, Latent, write


@dataclass(frozen=True)
class Row:
    """A published step."""

    name: str
    decoder: Decoder
    device_model: str
    teraflops: float
    """What a device reached, per second."""
    overlaps: bool = False
    """Whether collectives run beside other ops."""
    is_calibrated: bool = False
    """Whether the efficiencies of the device models were fitted to it."""

    @property
    def flops(self) -> float:
        """The operations of a step, by the publication's formula."""
        d = self.decoder
        tokens = d.microbatches * d.sequences * d.grid[0] * d.length
        if d.is_gpt:  # with the recomputation of all activations
            attention, logits = d.length / (6 * d.hidden), d.words / (16 * d.layers * d.hidden)
            return 96 * tokens * d.layers * d.hidden**2 * (1 + attention + logits)
        layers = sum(
            prod(shape[2:]) * (d.experts.chosen / d.experts.count if "experts" in name else 1)
            for name, (shape, spec) in d.weights().items()
            if "stage" in spec and len(shape) > 3
        )
        weights = d.layers * layers + d.hidden * d.words
        widths = sum(d.weights()[name][0][-1] for name in ("query", "value"))
        return 6 * tokens * (weights + d.layers * d.heads * widths * d.length)

    @property
    def seconds(self) -> float:
        """What a step took."""
        return self.flops / (prod(self.decoder.grid) * self.teraflops * 1e12)

    @property
    def bubble(self) -> float:
        """The part of the ticks in which a stage has nothing to do."""
        turns = self.decoder.microbatches * self.decoder.rounds
        return (self.decoder.grid[1] - 1) / (turns + self.decoder.grid[1] - 1)


def megatron(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    grid: tuple[int, int, int, int],
    batch: int,
    sequences: int,
    chunk: int,
    teraflops: float,
    *,
    is_calibrated: bool = False,
) -> Row:
    """A row of the table of Megatron-LM, of sequences of 2,048."""
    microbatches = batch // (grid[0] * sequences)
    decoder = Decoder(
        layers,
        hidden,
        heads,
        heads,
        4 * hidden,
        51200,
        2048,
        microbatches,
        grid,
        jnp.bfloat16,
        sequences=sequences,
        chunk=chunk,
        is_gpt=True,
        splits_length=False,
        splits_state=False,
    )
    return Row(name, decoder, "a100", teraflops, is_calibrated=is_calibrated)


ROWS: tuple[Row, ...] = (
    megatron("1.7B", 24, 2304, 24, (32, 1, 1, 1), 512, 16, 1, 137, is_calibrated=True),
    megatron("3.6B", 30, 3072, 32, (32, 1, 1, 2), 512, 16, 1, 138),
    megatron("7.5B", 36, 4096, 32, (32, 1, 1, 4), 512, 16, 1, 142),
    megatron("18.4B", 40, 6144, 48, (32, 1, 1, 8), 1024, 8, 1, 135, is_calibrated=True),
    megatron("39.1B", 48, 8192, 64, (32, 2, 1, 8), 1536, 4, 24, 138),
    megatron("76.1B", 60, 10240, 80, (32, 4, 1, 8), 1792, 2, 5, 140),
    megatron("145.6B", 80, 12288, 96, (24, 8, 1, 8), 2304, 2, 5, 148),
    megatron("310.1B", 96, 16384, 128, (15, 16, 1, 8), 2160, 1, 3, 155),
    megatron("529.6B", 105, 20480, 128, (9, 35, 1, 8), 2520, 1, 1, 163),
    megatron("1T", 128, 25600, 160, (6, 64, 1, 8), 3072, 1, 2, 163, is_calibrated=True),
    Row(
        "405B-8k", replace(LLAMA_405B, grid=(64, 16, 1, 8), microbatches=32), "h100", 430
    ),  # on 8,192 devices
    Row("405B", LLAMA_405B, "h100", 400),
    Row(
        "405B-128k",
        replace(LLAMA_405B, length=131072, grid=(8, 16, 16, 8), block=1024),
        "h100",
        380,
    ),
)


def maxtext(
    chip: str, chips: int, sequences: int, length: int, kept: tuple[str, ...], teraflops: float
) -> Row:
    """Llama 2 70B on a slice of TPUs, all of them replicas that share the state (FSDP)."""
    decoder = Decoder(
        80,
        8192,
        64,
        8,
        28672,
        32000,
        length,
        1,
        (chips, 1, 1, 1),
        jnp.bfloat16,
        sequences=sequences,
        gathers_layers=True,
        keeps=kept,
        block=512,
    )
    calibrated = chip == "v5e"
    model = f"tpu-{chip}"
    return Row(f"70B-{chip}", decoder, model, teraflops, overlaps=True, is_calibrated=calibrated)


PRODUCTS_BUT_MLP = ("query", "key", "value", "middle")
ROWS += (
    maxtext("v5p", 64, 4, 4096, PRODUCTS_BUT_MLP, 0.65 * 459),
    maxtext("v5e", 256, 2, 2048, PRODUCTS_BUT_MLP[:3], 0.57 * 197),
)


ROWS += (
    Row(
        "V3",
        Decoder(
            61,
            7168,
            128,
            128,
            2048,
            129280,
            4096,
            60,
            (128, 16, 1, 1),
            jnp.bfloat16,
            sequences=2,
            chunk=2,
            keeps=("middle",),
            block=512,
            experts=Experts(256, 8, 2048),
            latent=Latent(1536, 512, 64, 128),
            narrow=jnp.float8_e4m3fn,
            halves=2,
        ),
        "h100",
        434,
        overlaps=True,
    ),
)


def reported(row: Row, device_model: str | None) -> sd.Report:
    """What the report says of a row's step."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "step.mlir"
        write(row.decoder, path)
        module = sd.run_pipeline(sd.parse(path.read_text()), "spmd")
        return sd.report(module, device_model=device_model or row.device_model)


def line(row: Row, device_model: str | None) -> dict[str, object]:
    """A line of the table."""
    report = reported(row, device_model)
    schedule = report.schedule
    modelled = schedule.overlapped_total if row.overlaps else schedule.total
    return {
        "step": row.name + " *" * row.is_calibrated,
        " x ".join(AXES): " x ".join(map(str, row.decoder.grid)),
        "TFLOP/s": row.teraflops,
        "seconds": round(row.seconds, 2),
        "modelled": round(modelled, 2),
        "modelled / published": round(modelled / row.seconds, 2),
        "GB sent": round(report.bytes_moved / 1e9, 1),
        "bubble": f"{row.bubble:.1%}",
        "GB of memory": round(report.memory.peak / 1e9, 1),
    }


def main() -> None:
    """Print the table, or write a step."""
    parser = argparse.ArgumentParser(description="Published training steps.")
    names = [row.name for row in ROWS]
    parser.add_argument("names", nargs="*", metavar="STEP", help=", ".join(names))
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the step of one row")
    parser.add_argument("--device-model", metavar="MODEL", help="another one for all rows")
    given = parser.parse_args()
    if unknown := set(given.names) - {*names}:
        parser.error(f"no step is named {unknown.pop()}: expected {', '.join(names)}")
    rows = [row for row in ROWS if row.name in given.names or not given.names]
    if given.write:
        write(rows[0].decoder, given.write)
        return
    print(tabulate([line(row, given.device_model) for row in rows], "keys", "pipe"))


if __name__ == "__main__":
    main()
