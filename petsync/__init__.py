"""petsync: keep a pet store's catalogue and a team's spreadsheets in agreement.

import petsync as ps
with ps.demo() as store:
    plan = store.plan("catalogue.xlsx")
    report = store.apply(plan)
"""

