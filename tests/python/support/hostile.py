"""A program that is hard to record."""

from conftest import BUILD

CLIENT, VFORK = BUILD / "tests" / "hostile_client", BUILD / "tests" / "libvfork_at_start.so"
