"""Folders in which runs leave what they made."""
