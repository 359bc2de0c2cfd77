"""What maintainers run and users never see; not in the wheel."""
