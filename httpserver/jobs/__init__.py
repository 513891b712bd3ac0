"""Jobs: read, checked, previewed, submitted, shown and retried."""
