"""What the cells of a sheet say, and everything that is wrong with it."""
