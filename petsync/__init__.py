"""petsync: keep a pet store's catalogue and a team's spreadsheets in agreement."""
