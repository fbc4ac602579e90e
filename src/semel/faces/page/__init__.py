"""The web page: static files, served by `semel.faces.http`. No build step, no external resources."""
