"""Write tables of generated customers, some entered twice: customers.csv and test.csv with truth, new.csv without."""

import csv

import kinfolk as kf


def write(people: kf.Mentions, path: str, truth: bool = True) -> None:
    columns = {name: column.strings() for name, column in people.columns.items()}
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *columns, *(["entity"] if truth else [])])
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            known = [value or "" for value in values]
            rows.writerow([people.name(i), *known, *([people.clusters[i]] if truth else [])])


everybody = kf.generate_customers(6_000, seed=1)
part = everybody.clusters % 3  # all records of a customer go into one file
write(everybody.take(part == 0), "customers.csv")
write(everybody.take(part == 1), "test.csv")
write(everybody.take(part == 2), "new.csv", truth=False)
print("wrote customers.csv, test.csv and new.csv")
