// The `mesh` dialect. Above each definition stands what it is; optional attributes stand there in
// square brackets, for IRDL requires all that it names. The reference in docs/dialect.md is made of
// this file. `verify.py` checks what IRDL cannot say.
//
// IRDL wants all operands of a variadic group to have one type: no op here takes a list of tensors.

irdl.dialect @mesh {
  // How a tensor lies on a grid, in the RFC's notation.
  irdl.attribute @shard {
    %grid = irdl.base "#builtin.symbol_ref"
    %axes = irdl.base "#builtin.array"
    irdl.parameters(grid: %grid, axes: %axes)
  }
  // A grid of `rank` axes. [dim_sizes, axis_names, device_ids]
  irdl.operation @cluster {
    %name = irdl.base "#builtin.string"
    %rank = irdl.base "#builtin.integer"
    irdl.attributes {"sym_name" = %name, "rank" = %rank}
  }
  // The part of a cluster that begins at `offsets` and has `sizes`, a grid of its own.
  irdl.operation @sub_cluster {
    %name = irdl.base "#builtin.string"
    %cluster = irdl.base "#builtin.symbol_ref"
    %offsets = irdl.base "#builtin.array"
    %sizes = irdl.base "#builtin.array"
    irdl.attributes {"sym_name" = %name, "cluster" = %cluster, "offsets" = %offsets, "sizes" = %sizes}
  }
  // How a tensor lies: itself, or as its users see it. [required, as_result]
  irdl.operation @annotate {
    %type = irdl.any
    %size = irdl.any
    %sharding = irdl.any
    irdl.operands(source: %type, sizes: variadic %size)
    irdl.attributes {"sharding" = %sharding}
    irdl.results(result: %type)
  }
  // The same tensor, moved to lie so.
  irdl.operation @reshard {
    %type = irdl.any
    %sharding = irdl.any
    irdl.operands(source: %type)
    irdl.attributes {"sharding" = %sharding}
    irdl.results(result: %type)
  }
  // All tensors of one group lie alike.
  irdl.operation @sharding_group {
    %type = irdl.any
    %id = irdl.base "#builtin.integer"
    irdl.operands(source: %type)
    irdl.attributes {"group_id" = %id}
  }
  // The same tensor; propagation passes forward, backward, or none.
  irdl.operation @propagation_barrier {
    %type = irdl.any
    %direction = irdl.base "#builtin.string"
    irdl.operands(source: %type)
    irdl.attributes {"allowed_direction" = %direction}
    irdl.results(result: %type)
  }
  // The shard that a device holds along the manual axes, where a manual computation begins.
  irdl.operation @to_local {
    %from = irdl.any
    %to = irdl.any
    %sharding = irdl.any
    %axes = irdl.base "#builtin.array"
    irdl.operands(source: %from)
    irdl.attributes {"sharding" = %sharding, "manual_axes" = %axes}
    irdl.results(result: %to)
  }
  // The tensor of such shards, where a manual computation ends.
  irdl.operation @to_global {
    %from = irdl.any
    %to = irdl.any
    %sharding = irdl.any
    %axes = irdl.base "#builtin.array"
    irdl.operands(source: %from)
    irdl.attributes {"sharding" = %sharding, "manual_axes" = %axes}
    irdl.results(result: %to)
  }
  // The place of this device along axes of a cluster, the last fastest. [cluster, mesh_axis]
  irdl.operation @idx {
    %index = irdl.base "!builtin.index"
    irdl.results(result: %index)
  }
  // The number of devices along axes of a cluster. [cluster, mesh_axis]
  irdl.operation @size {
    %index = irdl.base "!builtin.index"
    irdl.results(result: %index)
  }
  // Every device of a group gets all the group's shards of a dimension.
  irdl.operation @all_gather {
    %from = irdl.any
    %to = irdl.any
    %axes = irdl.base "#builtin.array"
    %dims = irdl.base "#builtin.array"
    irdl.operands(source: %from)
    irdl.attributes {"mesh_axis" = %axes, "tensor_axis" = %dims}
    irdl.results(result: %to)
  }
  // A partial tensor becomes whole: all shards of a group are joined.
  irdl.operation @all_reduce {
    %from = irdl.any
    %to = irdl.any
    %axes = irdl.base "#builtin.array"
    %reduction = irdl.base "#builtin.string"
    irdl.operands(source: %from)
    irdl.attributes {"mesh_axis" = %axes, "reduction" = %reduction}
    irdl.results(result: %to)
  }
  // The same, and each device keeps its shard of a dimension.
  irdl.operation @reduce_scatter {
    %from = irdl.any
    %to = irdl.any
    %axes = irdl.base "#builtin.array"
    %dim = irdl.base "#builtin.integer"
    %reduction = irdl.base "#builtin.string"
    irdl.operands(source: %from)
    irdl.attributes {"mesh_axis" = %axes, "tensor_axis" = %dim, "reduction" = %reduction}
    irdl.results(result: %to)
  }
  // Axes move from dimension `concat_axis` to dimension `split_axis`.
  irdl.operation @all_to_all {
    %from = irdl.any
    %to = irdl.any
    %axes = irdl.base "#builtin.array"
    %split = irdl.base "#builtin.integer"
    %concat = irdl.base "#builtin.integer"
    irdl.operands(source: %from)
    irdl.attributes {"mesh_axis" = %axes, "split_axis" = %split, "concat_axis" = %concat}
    irdl.results(result: %to)
  }
  // Each device keeps its shard; nothing is communicated.
  irdl.operation @local_split {
    %from = irdl.any
    %to = irdl.any
    %sharding = irdl.base "#builtin.array"
    irdl.operands(source: %from)
    irdl.attributes {"sharding" = %sharding}
    irdl.results(result: %to)
  }
  // Each device gets what lies next to its shard as well, as the result's type says; or keeps less of it.
  irdl.operation @update_halo {
    %from = irdl.any
    %to = irdl.any
    irdl.operands(source: %from)
    irdl.results(result: %to)
  }
  // A replicated tensor becomes partial: the first device of a group keeps its shard. [cluster]
  irdl.operation @mask {
    %from = irdl.any
    %to = irdl.any
    %axes = irdl.base "#builtin.array"
    %reduction = irdl.base "#builtin.string"
    irdl.operands(source: %from)
    irdl.attributes {"mesh_axis" = %axes, "reduction" = %reduction}
    irdl.results(result: %to)
  }
  // A collective of the local form begins; its result is there when `done` gives it.
  irdl.operation @start {
    %from = irdl.any
    %to = irdl.any
    %collective = irdl.base "#builtin.dictionary"
    irdl.operands(source: %from)
    irdl.attributes {"collective" = %collective}
    irdl.results(result: %to)
  }
  // Wait for what `start` began.
  irdl.operation @done {
    %type = irdl.any
    irdl.operands(started: %type)
    irdl.results(result: %type)
  }
  // Shards change places along axes; or go to the devices of another cluster. [mesh_axis, permutation, cluster]
  irdl.operation @collective_permute {
    %from = irdl.any
    %to = irdl.any
    irdl.operands(source: %from)
    irdl.results(result: %to)
  }
}
