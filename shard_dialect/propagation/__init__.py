"""Propagation, without MLIR: values and ops are numbers, rules and shardings plain values.

graph                the program: values, and the nodes that shardings pass through
op_update            how one node updates the shardings of its values: basic or aggressive
engine               when each node is visited, and in which direction, until nothing changes
cost                 the bytes moved for an op, given the shardings of its values
spread_extents       offsets and halos, after propagation
upstream_traversals  upstream MLIR's orders: each op once
history              where each sharding came from, and which conflicts there were
"""
