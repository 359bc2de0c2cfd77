"""What other tools load of etc, one file each, on its public API alone; the core finds them by entry points."""
