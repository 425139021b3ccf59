"""Where tables are held and queries run, beyond the memory of this process."""
