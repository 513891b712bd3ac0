"""HTTP helpers: where requests come from, ranges, problems, file names in headers, and ZIP archives."""
