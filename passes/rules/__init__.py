"""The rewrites of the simplify pass, by theme. Each is a rule as :mod:`mcpc.rewrite` describes it."""
