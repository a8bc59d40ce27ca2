"""Exchange data between devices: threads of one process, MPI, torch.distributed."""
