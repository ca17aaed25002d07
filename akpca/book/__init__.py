"""What only the chapters need: no other room of the package imports from here.

- `reference`: the papers' algorithms line by line, which tests compare the fast forms with
- `plotting`, `sentences`: figures of the chapters, and their findings in words
- `experiments`: what chapters measure in the papers' experiments; `mocap`: motion capture
- `parameters`: the check of a notebook's first cell
- `rerun`: chapters run again with other parameters, the command line, results as one table
"""
