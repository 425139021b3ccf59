"""The end of every help page: commands that work, typed as they stand there.

Files are those that `examples/newswire.py`, `examples/citations.py` and `examples/customers.py` write, or named as
one's own would be.
"""

from __future__ import annotations

KEPT = "\b\n"  # a paragraph that begins so keeps its line breaks


def examples(*commands: str) -> str:
    """Examples for the end of a help page; a command may go on in the next line after a backslash."""
    lines = [f"  {line}" for command in commands for line in command.splitlines()]
    return KEPT + "\n".join(["Examples:", *lines])


TOKENS_TRAIN = examples(
    "kinfolk tokens train --train train.conll --dev dev.conll --out ner.kinfolk",
    "kinfolk tokens train --train train.conll --model mop --order both \\\n    --templates document --out mop.kinfolk",
    "kinfolk tokens train --train train.conll --out ner.kinfolk --quiet --json",
)
TOKENS_TAG = examples(
    "kinfolk tokens tag ner.kinfolk new.conll -o tagged.conll",
    "kinfolk tokens tag ner.kinfolk new.conll --entities",
    "kinfolk tokens tag ner.kinfolk new.conll --json",
)
TOKENS_EVALUATE = examples(
    "kinfolk tokens evaluate ner.kinfolk test.conll",
    "kinfolk tokens evaluate ner.kinfolk test.conll --json",
    "kinfolk tokens evaluate ner.kinfolk test.conll --report scores.html",
)
NODES_TRAIN = examples(
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
    "    --text title --model stacked --out papers.kinfolk",
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
    "    --text title --model mop --train-ids train.txt --out mop-papers.kinfolk",
)
NODES_PREDICT = examples(
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv \\\n    -o topics.csv",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv --proba",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv \\\n    --json -o topics.jsonl",
)
NODES_EVALUATE = examples(
    "kinfolk nodes evaluate papers.kinfolk --nodes truth.csv --edges cites.csv \\\n    --label topic --ids test.txt",
    "kinfolk nodes evaluate papers.kinfolk --nodes truth.csv --edges cites.csv \\\n"
    "    --label topic --ids test.txt --json",
)
MENTIONS_TRAIN = examples(
    "kinfolk mentions train --records customers.csv --cluster entity \\\n"
    "    --block 'key(postcode)' --block 'key(date_of_birth)' --out customers.kinfolk",
    "kinfolk mentions train --records new.csv --pairs labels.csv \\\n"
    "    --block 'key(postcode)' --out labelled.kinfolk",
    "kinfolk mentions train --documents litbank/train --out litbank.kinfolk",
)
MENTIONS_CLUSTER = examples(
    "kinfolk mentions cluster customers.kinfolk --records new.csv -o clusters.csv",
    "kinfolk mentions cluster customers.kinfolk --records new.csv --json",
    "kinfolk mentions cluster litbank.kinfolk --documents litbank/test",
)
MENTIONS_EVALUATE = examples(
    "kinfolk mentions evaluate customers.kinfolk --records test.csv --cluster entity",
    "kinfolk mentions evaluate litbank.kinfolk --documents litbank/test --json",
)
EXPLAIN = examples(
    "kinfolk explain mop.kinfolk test.conll --document 0 --token 3",
    "kinfolk explain mop.kinfolk test.conll --document 0 --report why.html",
    "kinfolk explain papers.kinfolk --nodes papers.csv --edges cites.csv --node p17 \\\n    --report node.html",
    "kinfolk explain customers.kinfolk rec-742-dup-0 --records test.csv",
    "kinfolk explain customers.kinfolk --records test.csv --report clusters.html",
)
DEMO = examples("kinfolk demo")
REPRODUCE = examples(
    "kinfolk reproduce stacked-cora --data data",
    "kinfolk reproduce chain-conll --data data --json rows.json",
    "kinfolk reproduce all --data data --report experiments.html",
)
TOKENS = examples(
    "kinfolk tokens train --train train.conll --out ner.kinfolk",
    "kinfolk tokens evaluate ner.kinfolk test.conll",
    "kinfolk tokens tag ner.kinfolk new.conll",
)
NODES = examples(
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
    "    --text title --model stacked --out papers.kinfolk",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv",
)
MENTIONS = examples(
    "kinfolk mentions train --records customers.csv --cluster entity \\\n"
    "    --block 'key(postcode)' --block 'key(date_of_birth)' --out customers.kinfolk",
    "kinfolk mentions cluster customers.kinfolk --records new.csv",
)
EXIT_STATUS = """\b
Exit status:
  0    all is well
  1    a fault of kinfolk itself, with a traceback: please report it
  2    a mistake in the input, the options or a file, told in one line
  130  interrupted (Ctrl-C); nothing was written"""
COMPLETION = """\b
Completion of words with the Tab key:
  kinfolk --install-completion
  eval "$(_KINFOLK_COMPLETE=source_bash kinfolk)"    # or source_zsh, source_fish"""
KINFOLK = "\n\n".join(
    [
        examples(
            "kinfolk tokens train --train train.conll --out ner.kinfolk",
            "kinfolk tokens tag ner.kinfolk new.conll",
            "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
            "    --text title --model stacked --out papers.kinfolk",
            "kinfolk mentions train --records customers.csv --cluster entity \\\n"
            "    --block 'key(postcode)' --block 'key(date_of_birth)' --out customers.kinfolk",
            "kinfolk explain papers.kinfolk --nodes papers.csv --edges cites.csv --node p17",
            "kinfolk tokens train --help",
        ),
        EXIT_STATUS,
        COMPLETION,
    ]
)
