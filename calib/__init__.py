"""Calibration for quantised networks: samples, what is observed of tensors while they pass, and the ranges it gives."""

from .collection import collect
from .tables import load_table


class Calibration:
    """See :class:`mcpc.calibrator.Calibrator`."""

    collect = staticmethod(collect)
    load = staticmethod(load_table)
