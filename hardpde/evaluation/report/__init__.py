"""The report: a page that opens in a browser."""
