"""Forms for notebooks: `login`, `open_sheet`, `review`, `upload_images`, `browse`, and `app`, all
of them as one page.

Each gathers input, calls the Store, and shows what came of it; each has a plain function that does
the same (docs/forms.md). Without a live kernel a form is HTML and text.
"""
