"""The program that the surveys with --poison run."""

from conftest import BUILD

CLIENT = BUILD / "stand_in" / "stand_in_unwritten_client"
