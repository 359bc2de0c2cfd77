"""What is read of a Hudi table without a JVM: its properties, timelines, commits and file slices."""
