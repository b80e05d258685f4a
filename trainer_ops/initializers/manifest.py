"""What a snapshot holds, file by file. Pure."""
