"""Who is who among the services: certificates, what stands in them, and the folder in which they lie."""
