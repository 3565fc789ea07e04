"""A small HTTP/1.1 client: each request is sent once, and an answer that is not beyond doubt is none."""
