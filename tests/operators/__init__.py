"""The operator suite: cases declared once, run by several runners.

:mod:`.case` says what a case is, :mod:`.families` holds all of them, :mod:`.runners` what they run on.
"""
