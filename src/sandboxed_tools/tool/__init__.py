"""What a tool is, and the values that cross every layer."""
