"""Forms for other programs: JUnit and Prometheus."""
