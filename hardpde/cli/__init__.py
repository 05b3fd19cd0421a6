"""The command `hardpde`."""

from hardpde.cli.parser import command, main

__all__ = ["command", "main"]
