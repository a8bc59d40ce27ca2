"""Random instances of each dialect's ops."""
