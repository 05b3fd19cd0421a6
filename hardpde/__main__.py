"""`python -m hardpde`: the command line."""

from hardpde.cli.parser import command

command()
