"""LanceDB as a backend: tables are truth and index in one, on a disk or in `s3://`."""
