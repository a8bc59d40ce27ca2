"""Pipeline stages: sub-clusters that each run a part of the program."""
