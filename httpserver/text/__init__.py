"""Text that people write: descriptions, and names that nearly match."""
