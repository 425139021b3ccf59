"""Write tables of generated customers, some entered twice: customers.csv and test.csv with truth, new.csv without.

labels.csv has 100 pairs of new.csv that somebody found to be the same, and 200 that look alike but are not.
"""

import csv

import numpy as np

import kinfolk as kf


def write(people: kf.Mentions, path: str, truth: bool = True) -> None:
    columns = {name: column.strings() for name, column in people.columns.items()}
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *columns, *(["entity"] if truth else [])])
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            known = [value or "" for value in values]
            rows.writerow([people.name(i), *known, *([people.clusters[i]] if truth else [])])


def write_labels(people: kf.Mentions, path: str) -> None:
    pairs = kf.block(people, ["key(postcode)", "key(date_of_birth)"])
    rng = np.random.default_rng(0)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["left", "right", "match"])
        for match, n in ((1, 100), (0, 200)):
            for k in rng.choice(np.flatnonzero(pairs.pair_labels == match), n, replace=False):
                rows.writerow([people.name(pairs.left[k]), people.name(pairs.right[k]), "yes" if match else "no"])


everybody = kf.generate_customers(6_000, seed=1)
part = everybody.clusters % 3  # all records of a customer go into one file
write(everybody.take(part == 0), "customers.csv")
write(everybody.take(part == 1), "test.csv")
write(everybody.take(part == 2), "new.csv", truth=False)
write_labels(everybody.take(part == 2), "labels.csv")
print("wrote customers.csv, test.csv, new.csv and labels.csv")
