"""`python -m hardpde.cli.commands`."""

from hardpde.cli.commands import command

command()
