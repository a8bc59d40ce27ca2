"""Every step that a program takes, in order: the pipelines of passes that have a name.

    shard-opt --spmd                         runs all steps of `Spmd`
    shard-opt --spmd --dump-pass-pipeline    prints them with their options, to be edited
    shard-opt --spmd --mlir-timing           shows each

A step is the name of a pass (`framework/pass_table.py`), of another pipeline here, or of one of
upstream's passes. A pass runs only where the module has what it needs (`framework/base.py`).
No pass runs another one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from shard_dialect.passes.framework.base import NamedPipeline
from shard_dialect.passes.framework.options import OPTIONS as PROPAGATION
from shard_dialect.passes.framework.options import (
    ObjectiveOptions,
    PropagationOptions,
    SizeOptions,
    StageOptions,
)


@dataclass(frozen=True)
class ExportShard(NamedPipeline):
    """Write annotations and shardings in upstream's vocabulary; refuse what it cannot express."""

    name = "export-shard"

    def steps(self) -> tuple[str, ...]:
        """From any vocabulary to one, and from that to upstream's."""
        return ("import", "annotations-to-shard")


@dataclass(frozen=True)
class ExportMesh(NamedPipeline):
    """Write annotations and shardings in the RFC's vocabulary, or refuse what it cannot express."""

    name = "export-mesh"

    def steps(self) -> tuple[str, ...]:
        """From any vocabulary to ours, which has the RFC's words and more."""
        return ("import", "refuse-beyond-mesh")


@dataclass(frozen=True)
class ExportSdy(NamedPipeline):
    """Write annotations and shardings in Shardy's vocabulary, or refuse what it cannot express."""

    name = "export-sdy"

    def steps(self) -> tuple[str, ...]:
        """From any vocabulary to one, and from that to Shardy's."""
        return ("import", "annotations-to-sdy")


@dataclass(frozen=True)
class Specialize(SizeOptions, NamedPipeline):
    """Set the sizes of arguments and grid that the program leaves open."""

    name = "specialize"

    def steps(self) -> tuple[str, ...]:
        """From the boundary inward."""
        return (
            self.with_options("set-sizes", "entry", "shapes", "scalars", "grid"),
            "fold-grid-sizes",
            "import",
            self.with_options("propagate-shapes", "entry"),
        )


@dataclass(frozen=True)
class Pipeline(StageOptions, NamedPipeline):
    """Divide the function into stages of a pipeline, and its batch into microbatches."""

    name = "pipeline"

    def steps(self) -> tuple[str, ...]:
        """From any vocabulary to one, then to stages; slices at 0 of a whole batch may be split."""
        stages = [field.name for field in fields(StageOptions)]
        return ("import", "batch-gathers", self.with_options("divide-into-stages", *stages))


@dataclass(frozen=True)
class Propagate(PropagationOptions, NamedPipeline):
    """Complete the annotations: give every tensor value a sharding, as attributes."""

    name = "propagate"

    remarks: bool = False
    """Report each conflict: the op, both sides, which side was kept, and why."""
    explain: str | None = None
    """Report the origin of a value's sharding: `%3` as printed, `@f:%3`, or a line of the file."""

    def steps(self) -> tuple[str, ...]:
        """From any vocabulary to one, from many grids to one, from calls to copies."""
        return (
            "fold-grid-sizes",
            "fold-collective-operands",
            "import",
            "settle-grids",
            "open-manual-computations",
            "inline-named-computations",
            "inline-functions",
            "stages-to-grid",
            "clone-per-call",
            self.with_options("take-merges-apart", *PROPAGATION),
            self.with_options("propagate-shardings", *PROPAGATION, "remarks", "explain"),
            "merge-clones",
        )


@dataclass(frozen=True)
class Materialize(ObjectiveOptions, NamedPipeline):
    """Make every communication explicit: shardings move into types, collectives appear."""

    name = "materialize"

    strict: bool = False
    """Make an op without a sharding rule an error."""

    def steps(self) -> tuple[str, ...]:
        """Complete the shardings of new values, then insert the collectives."""
        return (
            "import",
            "open-manual-computations",
            "complete-shardings",
            self.with_options("insert-collectives", "strict", "objective", "device_model"),
        )


@dataclass(frozen=True)
class OptimizeCollectives(ObjectiveOptions, NamedPipeline):
    """Make collectives cheaper: rewrite them in the distributed form, bundle them in the local."""

    name = "optimize-collectives"

    narrow: bool = False
    """Let a conversion to narrower floats round partial sums before they are reduced."""

    def steps(self) -> tuple[str, ...]:
        """One step for each form."""
        rewritten = self.with_options("rewrite-collectives", "narrow", "objective", "device_model")
        return (rewritten, "bundle-collectives")


BEFORE_PROPAGATION = (
    "expand-top-k",
    "expand-random-bits",
    "batch-gathers",
    "compose-slices",
    "sum-in-place",
)
"""The passes that write ops as ones that can be split better, whatever their annotations."""


@dataclass(frozen=True)
class Spmd(ObjectiveOptions, NamedPipeline):
    """Make of annotated global tensors the program that each device runs: all passes to it."""

    name = "spmd"

    def steps(self) -> tuple[str, ...]:
        """From the annotated to the local form."""
        return (
            "import",
            "inline-functions",
            "sink-reshapes",
            *BEFORE_PROPAGATION,
            "propagate",
            "sum-apart",
            "split-reductions",
            "shift-slices",
            self.with_options("materialize", "objective", "device_model"),
            self.with_options("rewrite-collectives", "objective", "device_model"),
            "partition",
            "bundle-collectives",
        )


@dataclass(frozen=True)
class Lower(NamedPipeline):
    """Replace collectives by calls of runtime functions, and tensors by buffers."""

    name = "lower"

    target: Literal["runtime", "mpi", "stablehlo"] = "runtime"
    """What executes collectives: the runtime that runs the program, generated calls of MPI, or a
    compiler of StableHLO, for which tensors stay tensors."""
    devices: Literal["replicas", "partitions"] = "replicas"
    """The kind of StableHLO's processes that devices become."""
    chlo: bool = False
    """Keep CHLO's functions, such as `chlo.erf`, in StableHLO, as compilers read them."""
    copy_before_write: bool = False
    """Copy before every write: slower, but correct whatever the buffer analysis overlooks."""

    def steps(self) -> tuple[str, ...]:
        """To loops on buffers, or to StableHLO."""
        if self.target == "stablehlo":
            return self._to_stablehlo()
        return (*self._to_linalg(), *self._to_buffers(), *(("call-mpi",) * (self.target == "mpi")))

    def _to_stablehlo(self) -> tuple[str, ...]:
        return (
            "refuse-sharded",
            "expand-rolls",
            "fold-device-positions",
            "fold-collective-operands",
            "expand-registered-ops",
            "branches-to-scf",
            "tosa-to-linalg",
            "generalize-linalg",
            "lower-affine-ops",
            self.with_options("convert-to-stablehlo", "devices"),
            *(() if self.chlo else ("decompose-chlo",)),
            "cse",
        )

    def _to_linalg(self) -> tuple[str, ...]:
        return (
            "refuse-sharded",
            "inline-for-one-device",
            "expand-rolls",
            "mark-boundary",
            "control-flow-to-scf",
            "keep-collectives",
            "fold-device-positions",
            "fold-collective-operands",
            "check-members",
            "collectives-on-tensors",
            "pack-collectives",
            "branches-to-scf",
            "keep-endless-loops",
            "decompose-chlo",
            "expand-ops",
            "refuse-custom-calls",
            "stablehlo-to-linalg",
            "switches-to-ifs",
            "decompose-linalg",
            "tosa-to-linalg",
            "elementwise-to-linalg",
            "drop-signs",
            "accumulate-wide",
        )

    def _to_buffers(self) -> tuple[str, ...]:
        return (
            "separate-buffers",
            "copy-loop-carried",
            "expand-to-loops",
            "compute-elements",
            "call-collectives",
            "release-collectives",
            self.with_options("bufferize", "copy_before_write"),
            "copy-repeated-results",
            "results-to-arguments",
            "free-buffers",
            "simplify-lowered",
            "end-lowering",
        )


PIPELINES: dict[str, type[NamedPipeline]] = {
    each.name: each
    for each in (
        ExportShard,
        ExportMesh,
        ExportSdy,
        Specialize,
        Pipeline,
        Propagate,
        Materialize,
        OptimizeCollectives,
        Spmd,
        Lower,
    )
}
