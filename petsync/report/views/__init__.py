"""Views: functions that turn a value into a document."""
