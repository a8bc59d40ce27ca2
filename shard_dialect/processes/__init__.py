"""Child processes, the ranks of a job, launchers, and output files."""
