"""Pipelining: stages, microbatches and a schedule for a function without any.

schedules              which stage works when on which microbatch
split_batch            the program of one microbatch
microbatch_program     which of its ops run for each microbatch, and which once
choose_stages          on which stage each of its ops is
annotations_on_stages  annotations, moved from the grid to the stages
write_tasks            the ops of all microbatches, in the order of the schedule
pipeline_              the pass
"""
