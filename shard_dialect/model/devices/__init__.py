"""What devices and their network can do, and what collectives take on them."""
