"""HTTP: requests and responses; what every request passes, and how every answer is written."""
