"""The page: its parts and assets."""
