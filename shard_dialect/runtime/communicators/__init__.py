"""How devices exchange data: threads of one process, MPI, torch.distributed."""
