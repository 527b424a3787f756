"""What the tests share: programs to record, results to read, and slow loops to compare with."""
