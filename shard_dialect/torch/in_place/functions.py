"""`fully_shard` and `parallelize_module`, which change a module in place as torch's do.

    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])           # parameters are DTensors from here on
    loss = model(x)                               # compiles a program, and runs it

Each call is noted at the modules that it is about. The first call of the outermost module that was
changed makes one plan of all notes below it, and an `Engine` runs that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.tensor import DTensor

from shard_dialect.errors import ShardError
from shard_dialect.model import Sharding
from shard_dialect.runtime.compiled_program import Compiler
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.tensor_trees import Leaves, Tensor
from shard_dialect.torch.in_place.mesh_axes import MeshAxes
from shard_dialect.torch.in_place.modules import Distributed, FSDPModule
from shard_dialect.torch.in_place.notes import Note, compiler_of, noted, plan_of
from shard_dialect.torch.partitioned import class_of
from shard_dialect.torch.plans.placed_names import PlacedModule
from shard_dialect.torch.plans.plan_rules import layouts_of, matches_nothing, matching, rules_of
from shard_dialect.torch.rank_tensors import RankTensors, compiler_for
from shard_dialect.torch.shared_memory import refuse_shared


def add_note(module: Any, note: Note, root: Any, kind: Any) -> None:
    """Note it, and give `root`, which the user has called this for, a class of ours.

    Raises `ShardError` for a call on another mesh than those before, for two calls about one module
    along one dimension, of two compilers, and for a module of ours.
    """
    if hasattr(module, "_engine") and not isinstance(module, Distributed):
        raise ShardError("the module is one that sd.torch.partition has returned")
    compiler_for(note.compiler, note.axes.mesh)  # raises if it is none
    compiler_of([*noted(root), ("", module, note)])
    for name, _, other in noted(root):
        if other.axes.grid != note.axes.grid or other.axes.mesh != note.axes.mesh:
            raise ShardError(
                f"is on {other.axes.mesh}: expected the whole mesh {note.axes.mesh}, of which "
                "both calls may be given dimensions",
                name or None,
            )
    for each in vars(module).get("_notes", ()):
        both = [name for name in note.axes.names if name in each.axes.names]
        if both:
            raise ShardError(
                f"{_said(each)} and {_said(note)} are about one {type(module).__name__} along "
                f"{', '.join(both)}: expected one of them, or other dimensions of the mesh"
            )
    own = vars(root).setdefault("_module_class", type(root))
    vars(root)["_engine"] = None
    if not isinstance(root, kind):
        root.__class__ = class_of(kind, own)
    vars(module).setdefault("_notes", []).append(note)


def _said(note: Note) -> str:
    return "fully_shard" if note.style is None else type(note.style).__name__


def place_parameters(module: Any, axes: MeshAxes, source: int | None = None) -> None:
    """Make DTensors of the parameters that the notes are about, on ranks; check the notes.

    With `source`, the values are those of this rank along the axes.
    """
    flat = FlatModule(module, {}, Leaves.of(((), {}, ())))
    placed = PlacedModule.of(flat, rules_of(plan_of(module), axes.grid), axes.grid)
    ranks = axes.ranks()
    own: dict[int, Any] = {}
    if ranks is not None:
        refuse_shared({name for name, each in flat.state.items() if each.requires_grad}, flat.state)
    for name, each in flat.state.items():
        shape = tuple(each.shape)
        annotation = placed.annotation(name, shape)
        if name in placed.tensors and annotation is not None and ranks is not None:
            own[id(each)] = _distributed(each, annotation.sharding, ranks, axes, source)
    for inner in module.modules():
        for key, each in inner._parameters.items():
            if id(each) in own:
                inner._parameters[key] = own[id(each)]


def _distributed(
    each: Tensor, sharding: Sharding, ranks: RankTensors, axes: MeshAxes, source: int | None
) -> Any:
    """A parameter as a DTensor, with no more data than it has."""
    if each.is_meta:
        whole = torch.empty(each.shape, dtype=each.dtype, device="meta")
    else:
        whole = each.detach()
        whole = whole.full_tensor() if isinstance(whole, DTensor) else whole
        if source is not None and not isinstance(each, DTensor):
            (axis,) = axes.axes
            group = axes.mesh.get_group(axis)
            dist.broadcast(whole, group=group, group_src=source)
    return torch.nn.Parameter(ranks.distributed(whole, sharding), each.requires_grad)


def parallelize_module(
    module: Any,
    device_mesh: Any = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
    compiler: Compiler | None = None,
) -> Any:
    """Apply a style, or a dict of styles by the names of modules, to a module in place.

    As torch's function of this name. `device_mesh` is of one dimension, or a dimension of a mesh as
    `mesh["tp"]`; in one process a grid. Parameters of modules with styles become DTensors on
    ranks, with the values of `src_data_rank`. `compiler` is that of `partition`. Raises
    `ShardError` for names that match nothing.
    """
    axes = MeshAxes.of(device_mesh)
    if len(axes.axes) != 1:
        raise ShardError(
            f"parallelize_module is about one dimension of a mesh, not {', '.join(axes.names)}: "
            f'give mesh["{axes.names[-1]}"]'
        )
    is_one = not isinstance(parallelize_plan, Mapping)
    plan = {"": parallelize_plan} if is_one else parallelize_plan
    modules = dict(module.named_modules())
    for pattern, style in plan.items():
        found = matching(pattern, modules)
        if not found:
            raise matches_nothing(pattern, modules, "module")
        for name in found:
            layouts_of(style, modules[name], name)  # raises if it is none
            add_note(modules[name], Note(axes, style, compiler=compiler), module, Distributed)
    place_parameters(module, axes, src_data_rank)
    return module


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: Any = None,
    offload_policy: Any = None,
    ignored_params: Any = None,
    dp_mesh_dims: Any = None,
    compiler: Compiler | None = None,
) -> Any:
    """Split the parameters of a module, or of each of a list, in place, along a mesh dimension.

    As torch's function of this name. `mesh` is of one dimension, or of two (the parameters are
    replicated along the first), or dimensions of a mesh as `mesh["dp"]`; in one process a grid.
    When parameters are gathered, and for how long, the compiler decides: `reshard_after_forward`
    changes nothing. `compiler` is that of `partition`. Raises `ShardError` for what we do not have.
    """
    if isinstance(module, (list, tuple)):
        for each in module:
            fully_shard(
                each,
                mesh=mesh,
                shard_placement_fn=shard_placement_fn,
                mp_policy=mp_policy,
                offload_policy=offload_policy,
                ignored_params=ignored_params,
                dp_mesh_dims=dp_mesh_dims,
                compiler=compiler,
            )
        return module
    _refuse_options(offload_policy, dp_mesh_dims)
    axes = MeshAxes.of(mesh)
    if len(axes.axes) not in (1, 2):
        raise ShardError(
            f"fully_shard is about one or two dimensions of a mesh, not {', '.join(axes.names)}: "
            f'give mesh["{axes.names[0]}"]'
        )
    if any(note.style is None for note in vars(module).get("_notes", ())):
        raise ShardError(f"fully_shard was called for this {type(module).__name__} before")
    ignored = {id(each) for each in ignored_params or ()}
    names = frozenset(name for name, each in module.named_parameters() if id(each) in ignored)
    kept = {"shard_placement_fn": shard_placement_fn, "mp_policy": mp_policy}
    note = Note(axes, options=kept, ignored=names, compiler=compiler)
    add_note(module, note, module, FSDPModule)
    place_parameters(module, axes)
    return module


def _refuse_options(offload_policy: Any, dp_mesh_dims: Any) -> None:
    if type(offload_policy).__name__ not in ("NoneType", "OffloadPolicy"):
        raise ShardError(
            f"{type(offload_policy).__name__} is not supported: parameters are where the module "
            "has them, so keep it on the CPU for that"
        )
    if dp_mesh_dims is not None:
        raise ShardError('dp_mesh_dims= is not supported: give mesh=mesh["dp"]')


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Refuse modules that `fully_shard` changed: a method that calls one needs no registration."""
    if isinstance(module, Distributed):
        raise ShardError(
            f"{method_name} is no forward: a program is made of calls of the module. A method that "
            "calls the module works as it is; what it computes itself, put into a module's forward"
        )
