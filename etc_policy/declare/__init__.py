"""Declare: YAML files in, validated policy models with their positions out."""
