"""The explorer: a page in the browser for designs, measurements, studies and the paper.

`explore` starts it, `server` answers the page's requests, `folders` finds what is in the folder and keeps requests
inside it, `designs`, `studies` and `shown_records` say what the page shows, and `pages` puts the page together from the
files in `page/`.
"""
