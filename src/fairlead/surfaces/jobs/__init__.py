"""The jobs API: jobs that are submitted, listed, watched and canceled by programs (docs/jobs.md)."""
