"""The C runtime: its sources, and in an installed package its library."""
