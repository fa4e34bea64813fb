"""Sample models: builders, one small trained network, and real ones that come out of packages on PyPI.

python -m mcpc.models list
"""
