"""Templates in policy files: Jinja itself, in its sandbox, on values of YAML and within bounds."""
