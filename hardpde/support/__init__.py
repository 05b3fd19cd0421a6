"""What everything stands on: files, messages, the machine, provenance, progress."""
