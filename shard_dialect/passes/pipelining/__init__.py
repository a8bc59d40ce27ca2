"""Pipelining: stages, microbatches and a schedule for a function without any.

schedules       which stage works when on which microbatch
split_batch     the program of one microbatch
choose_stages   on which stage each of its ops is
pipeline_       the pass, which writes the ops of all microbatches in the order of the schedule
"""
