"""Write files of the generated newswire world to try the command line on: train, dev, test and new .conll."""

import kinfolk as kf

train, rest = kf.newswire_split(train=200, test=150, seed=1)
kf.write_conll(train, "train.conll")
kf.write_conll(rest.documents(0, 50), "dev.conll")
kf.write_conll(rest.documents(50, 140), "test.conll")
kf.write_conll(rest.documents(140, 150).with_labels(None, None), "new.conll")
print("wrote train.conll, dev.conll, test.conll and new.conll")
