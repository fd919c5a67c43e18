"""The page: `app` in a browser, without a notebook, through Voilà.

`serving` is the server's side, `opened` the kernel's, which app.ipynb calls; each tab that is
opened has a kernel of its own, that ends with the tab.
"""
