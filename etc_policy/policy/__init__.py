"""Policy: YAML files in, validated and resolved policies with their positions out."""
