"""Jobs: how they are read, checked, previewed, submitted, shown and retried."""
