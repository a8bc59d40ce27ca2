"""Pipelining: stages, microbatches and a schedule for a function without any.

pipeline               the pass
divide_loops           loops over layers, divided into loops over the layers of each part
unroll_loops           those unrolled that cannot be divided
batch_types            how values depend on the batch, also inside of loops
split_batch            the program of one microbatch, and which of its ops run once
choose_stages          on which stage each of its ops is
annotations_on_stages  annotations, moved from the grid to the stages
timetable              when each stage works on each microbatch
write_loops            loops over ticks, in which all stages work
microbatch_ops         the ops that take a batch apart, and put it together
"""
