"""What is said of an error that somebody else raised."""


def first_line(error: BaseException) -> str:
    """The first line of an error's words; its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
