"""A package, so that one folder of tests can use what another has."""
