"""The ops of a program by layers and regions, with the sharding of each value between them."""
