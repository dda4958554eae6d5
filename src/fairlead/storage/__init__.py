"""What is remembered: the only place that speaks SQL, and the reader of the catalog's files."""
