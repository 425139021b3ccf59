"""Write files of the generated newswire world to try the command line on: train, dev, test and new .conll.

They hold words and labels alone, so that a model of them also tags plain text.
"""

from dataclasses import replace

import kinfolk as kf


def write(corpus: kf.Corpus, path: str) -> None:
    kf.write_conll(replace(corpus, columns={"word": corpus.columns["word"]}), path)


train, rest = kf.newswire_split(train=100, test=100, seed=1)
write(train, "train.conll")
write(rest.documents(0, 30), "dev.conll")
write(rest.documents(30, 90), "test.conll")
write(rest.documents(90, 100).with_labels(None, None), "new.conll")
print("wrote train.conll, dev.conll, test.conll and new.conll")
