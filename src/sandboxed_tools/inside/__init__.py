"""What is copied into the image with Python and runs there, in front of a moved call."""
