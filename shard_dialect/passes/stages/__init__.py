"""Pipeline stages: sub-clusters that each run their own ops of the program."""
