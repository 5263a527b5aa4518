"""The manager's page: what the service knows, to be looked at and acted on in a browser.

A view is a pure function from a visit to HTML, and acts that change things. Only ``install`` and ``live`` know NiceGUI.
"""
