"""The canonical table: its columns, the grammar of its cells, and pets as rows and back."""
