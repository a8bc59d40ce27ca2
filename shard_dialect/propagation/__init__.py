"""Completing shardings: values and ops as numbers, rules and shardings as values, no MLIR.

graph       what there is: values, and the nodes that shardings pass through
step        what one node does, by the shardings around it: basic or aggressive
schedule    which nodes have their turn when, and in which direction
engine      all nodes until nothing changes
cost        what the shardings around a node cost, in bytes moved
upstream    upstream MLIR's orders: each op once
history     where each sharding came from, and which conflicts there were
"""
