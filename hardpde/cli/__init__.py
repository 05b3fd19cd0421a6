"""The command `hardpde`."""

from hardpde.cli.commands import command, main

__all__ = ["command", "main"]
