// The `mesh` dialect. The comment above each definition describes it, and lists its optional
// attributes in square brackets, since IRDL requires all attributes that it names. docs/dialect.md is
// generated from this file and `collectives/`, which has those of steps. `verify.py` makes the checks that IRDL cannot express.
//
// In IRDL all operands of a variadic group have one type, so no op here takes a list of tensors.

irdl.dialect @mesh {
  // The sharding of a tensor on a grid, in the RFC's notation.
  irdl.attribute @shard {
    %grid = irdl.base "#builtin.symbol_ref"
    %axes = irdl.base "#builtin.array"
    irdl.parameters(grid: %grid, axes: %axes)
  }
  // A grid with `rank` axes. [dim_sizes, axis_names, device_ids, stage_axes]
  irdl.operation @cluster {
    %name = irdl.base "#builtin.string"
    %rank = irdl.base "#builtin.integer"
    irdl.attributes {"sym_name" = %name, "rank" = %rank}
  }
  // A sub-cluster of a cluster, from `offsets` on with these `sizes`. It is a grid, too.
  irdl.operation @sub_cluster {
    %name = irdl.base "#builtin.string"
    %cluster = irdl.base "#builtin.symbol_ref"
    %offsets = irdl.base "#builtin.array"
    %sizes = irdl.base "#builtin.array"
    irdl.attributes {"sym_name" = %name, "cluster" = %cluster, "offsets" = %offsets, "sizes" = %sizes}
  }
  // Annotates the sharding of a tensor: of the value, or only for its users. [required, as_result]
  irdl.operation @annotate {
    %type = irdl.any
    %size = irdl.any
    %sharding = irdl.any
    irdl.operands(source: %type, sizes: variadic %size)
    irdl.attributes {"sharding" = %sharding}
    irdl.results(result: %type)
  }
  // The same tensor, resharded to this sharding.
  irdl.operation @reshard {
    %type = irdl.any
    %sharding = irdl.any
    irdl.operands(source: %type)
    irdl.attributes {"sharding" = %sharding}
    irdl.results(result: %type)
  }
  // All tensors of one group have the same sharding.
  irdl.operation @sharding_group {
    %type = irdl.any
    %id = irdl.base "#builtin.integer"
    irdl.operands(source: %type)
    irdl.attributes {"group_id" = %id}
  }
  // The same tensor; it lets propagation pass forward, backward, or not at all.
  irdl.operation @propagation_barrier {
    %type = irdl.any
    %direction = irdl.base "#builtin.string"
    irdl.operands(source: %type)
    irdl.attributes {"allowed_direction" = %direction}
    irdl.results(result: %type)
  }
  // The local tensor along the manual axes, where a manual computation begins.
  irdl.operation @to_local {
    %from = irdl.any
    %to = irdl.any
    %sharding = irdl.any
    %axes = irdl.base "#builtin.array"
    irdl.operands(source: %from)
    irdl.attributes {"sharding" = %sharding, "manual_axes" = %axes}
    irdl.results(result: %to)
  }
  // The global tensor of such local tensors, where a manual computation ends.
  irdl.operation @to_global {
    %from = irdl.any
    %to = irdl.any
    %sharding = irdl.any
    %axes = irdl.base "#builtin.array"
    irdl.operands(source: %from)
    irdl.attributes {"sharding" = %sharding, "manual_axes" = %axes}
    irdl.results(result: %to)
  }
  // The index of this device along an axis of a cluster, or along several, the last fastest. [axis, mesh_axis, cluster]
  irdl.operation @idx {
    %index = irdl.base "!builtin.index"
    irdl.results(result: %index)
  }
  // The number of devices along an axis of a cluster, or along several. [axis, mesh_axis, cluster]
  irdl.operation @size {
    %index = irdl.base "!builtin.index"
    irdl.results(result: %index)
  }
  // The tensor, whose elements are `by` further along a dimension; those at its end come to its beginning.
  irdl.operation @roll {
    %type = irdl.any
    %axis = irdl.base "#builtin.integer"
    %by = irdl.base "#builtin.integer"
    irdl.operands(source: %type)
    irdl.attributes {"tensor_axis" = %axis, "by" = %by}
    irdl.results(result: %type)
  }
  // Starts a collective of the local form; `done` returns its result.
  irdl.operation @start {
    %from = irdl.any
    %to = irdl.any
    %collective = irdl.base "#builtin.dictionary"
    irdl.operands(source: %from)
    irdl.attributes {"collective" = %collective}
    irdl.results(result: %to)
  }
  // Waits for the collective that `start` started.
  irdl.operation @done {
    %type = irdl.any
    irdl.operands(started: %type)
    irdl.results(result: %type)
  }
  // Passes on to a cluster the box of a tensor that begins at `offsets`; or puts all of a tensor into another one, which is there.
  irdl.operation @transfer {
    %from = irdl.any
    %into = irdl.any
    %to = irdl.any
    %cluster = irdl.base "#builtin.symbol_ref"
    %offsets = irdl.base "#builtin.array"
    irdl.operands(source: %from, into: optional %into)
    irdl.attributes {"cluster" = %cluster, "offsets" = %offsets}
    irdl.results(result: %to)
  }
}
