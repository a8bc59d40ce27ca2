"""Reports on a partitioned program: what it communicates and why, and what that costs."""
