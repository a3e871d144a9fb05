"""What each page shows, as frozen values: made from the record, known to no skin."""
