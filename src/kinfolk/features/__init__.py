"""Raw data to feature rows."""
