"""`python -m kinfolk` is the command line."""

from kinfolk.cli.main import run

run()
