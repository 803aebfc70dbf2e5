"""File permissions as an ordinary user meets them, also where tests run as root."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

OVERRIDE = (1 << 1) | (1 << 2)
"""Linux's CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root's right to pass over the permissions of files."""
VERSION = 0x20080522
"""Of the structures that `capget` and `capset` take: capabilities in two words."""


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("process", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


@contextlib.contextmanager
def permissions_hold() -> Iterator[None]:
    """While it is open, the permissions of files hold for this thread, even if it is root's."""
    if not sys.platform.startswith("linux"):
        yield
        return
    library, header, sets = ctypes.CDLL(None, use_errno=True), _Header(VERSION, 0), (_Sets * 2)()
    if library.capget(ctypes.byref(header), sets):
        raise OSError(ctypes.get_errno(), "capget")
    before = sets[0].effective
    try:
        _set(library, header, sets, before & ~OVERRIDE)
        yield
    finally:
        _set(library, header, sets, before)


def _set(library: ctypes.CDLL, header: _Header, sets: ctypes.Array[_Sets], effective: int) -> None:
    sets[0].effective = effective
    if library.capset(ctypes.byref(header), sets):
        raise OSError(ctypes.get_errno(), "capset")
