"""Propagation, without MLIR: values and ops are numbers, rules and shardings plain values.

graph             the program: values, and the nodes that shardings pass through
step              how one node updates the shardings of its values: basic or aggressive
schedule          when each node is visited, and in which direction
engine            visits all nodes until nothing changes
cost              the bytes moved for an op, given the shardings of its values
upstream_order    upstream MLIR's orders: each op once
history           where each sharding came from, and which conflicts there were
shortest_chains   the shortest way from a split back to its annotation
"""
