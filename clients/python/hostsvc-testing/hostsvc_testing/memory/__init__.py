"""The storage of the service in memory, with the visibility and the locks of PostgreSQL."""
