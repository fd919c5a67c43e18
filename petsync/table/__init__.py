"""The canonical table: its columns, the grammar of its cells, and conversion from and to pets."""
