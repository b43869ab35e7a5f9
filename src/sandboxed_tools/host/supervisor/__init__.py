"""What the supervisor of a host run executes, in an interpreter that has nothing but this."""
