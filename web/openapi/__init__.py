"""The OpenAPI document, made of the route table: of what checks requests and of the types of the answers."""
