"""The OpenAPI document, built from the route table, the request schemas and the response types."""
