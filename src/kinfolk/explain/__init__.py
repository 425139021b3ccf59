"""Why an answer."""
