"""Compile: policy models in, a manifest of resolved policies out (pure)."""
