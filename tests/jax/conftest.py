"""The tests here import jax."""

from tests.extras import missing

collect_ignore_glob = ["test_*.py"] if missing(["jax"]) else []
