"""Catalogues that do not fit into memory: folders of parts, split by a hash of the pets' ids."""
