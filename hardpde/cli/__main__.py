"""`python -m hardpde.cli`."""

from hardpde.cli.parser import command

command()
