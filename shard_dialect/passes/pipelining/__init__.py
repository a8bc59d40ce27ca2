"""Pipelining: stages, microbatches and a schedule for a function without any.

pipeline               the pass
unroll_loops           loops over layers, unrolled so that stages can divide their trips
split_batch            the program of one microbatch, and which of its ops run once
choose_stages          on which stage each of its ops is
annotations_on_stages  annotations, moved from the grid to the stages
timetable              when each stage works on each microbatch
write_loops            loops over ticks, in which all stages work
microbatch_ops         the ops that take a batch apart, and put it together
"""
