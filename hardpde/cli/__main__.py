"""`python -m hardpde.cli.commands`."""

from hardpde.cli.parser import command

command()
