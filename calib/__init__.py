"""Calibration for quantised networks. Empty so far: networks are compiled in float32."""
