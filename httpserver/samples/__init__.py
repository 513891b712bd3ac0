"""What attempts used, over HTTP: points, tables, plots, and new samples as they come."""
