"""The one parser of sizes that a person types: "50%", "40M", "24GB"."""

UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def size(option: str, text: str, whole: float | None = None, unit: str = "") -> int:
    """A size as a whole number.

    Args:
        option: what to call it in an error.
        text: a number, with K, M, G or T for thousands, and the unit if there is one; or a share, with %.
        whole: what a share is a share of; None if a share makes no sense.
        unit: "B" for bytes.
    """
    typed = text.strip().upper()
    try:
        if typed.endswith("%") and whole is not None:
            value = float(typed[:-1]) / 100 * whole
        else:
            typed = typed.removesuffix(unit)
            value = float(typed[:-1]) * UNITS[typed[-1]] if typed[-1:] in UNITS else float(typed)
        found = int(value)
    except (ValueError, OverflowError):  # also NaN and infinity
        found = 0
    if found < 1:
        share, example = ("a share or a size", '"50%", ') if whole is not None else ("a size", "")
        raise ValueError(f'{option} takes {share}, such as {example}"{"24GB" if unit else "40M"}", got "{text}"')
    return found
