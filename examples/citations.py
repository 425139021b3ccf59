"""Write a generated library of papers that cite each other.

papers.csv has the topics of two thirds of them, truth.csv all topics; cites.csv tells who cites whom. train.txt and
test.txt list the papers whose topics papers.csv has, and has not.
"""

import csv

from kinfolk.datasets.citations import citation_tables


def write(table: dict[str, list[str]], path: str) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))


papers, cites = citation_tables(1_500, seed=1)
held_out = {key for number, key in enumerate(papers["id"]) if number % 3 == 2}
known = ["" if key in held_out else topic for key, topic in zip(papers["id"], papers["topic"], strict=True)]
write({**papers, "topic": known}, "papers.csv")
write(papers, "truth.csv")
write(cites, "cites.csv")
for path, listed in (("train.txt", {*papers["id"]} - held_out), ("test.txt", held_out)):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{key}\n" for key in papers["id"] if key in listed)
print("wrote papers.csv, truth.csv, cites.csv, train.txt and test.txt")
