"""
Chunking sentences with a CRF
=============================

Chunking splits a sentence into phrases: noun phrases (NP), verb phrases (VP) and prepositions (PP).
The label of a word says whether a phrase begins at the word (B) or continues (I), and O is no
phrase. Many words, such as *plans*, can be a noun or a verb. A conditional random field,
:class:`~skmrf.CRF`, predicts all labels of a sentence jointly, so each label depends on its
neighbours. The example takes a few seconds.
"""

# %%
# Sentences
# ---------
# A small grammar generates sentences with their labels. A word that can be a noun or a verb is in
# both lists.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from skmrf import CRF, SequenceVectorizer
from skmrf.metrics import sequence_scores

BOTH = " plans reports cuts talks offers moves claims orders rates shares results costs"
LEXICON = {
    "determiner": "the a this each no",
    "adjective": "new big local foreign common early weak final public strong",
    "noun": "bank market company workers price week trade law analysts bonds state tax" + BOTH,
    "pronoun": "it they he she",
    "verb": "said fell rose bought sold expects wants has makes" + BOTH,
    "modal": "will may could should",
    "base verb": "buy sell rise fall make offer report plan cut move",
    "adverb": "again also soon not",
    "preposition": "in of on with for after",
}
WORDS = {name: text.split() for name, text in LEXICON.items()}
NOUN_PHRASES = [
    ["determiner", "noun"],
    ["determiner", "adjective", "noun"],
    ["noun"],
    ["adjective", "noun"],
    ["noun", "noun"],
    ["determiner", "noun", "noun"],
    ["pronoun"],
]
VERB_PHRASES = [["verb"], ["verb"], ["modal", "base verb"], ["modal", "adverb", "base verb"]]


def add_phrase(sentence, rng, kind, patterns):
    """Append the words and labels of a random phrase to a sentence."""
    pattern = patterns[rng.integers(len(patterns))]
    for k, name in enumerate(pattern):
        sentence.append((str(rng.choice(WORDS[name])), f"{'I' if k else 'B'}-{kind}"))


def make_sentence(rng):
    """Return the words of a random sentence, and their labels."""
    sentence = []
    add_phrase(sentence, rng, "NP", NOUN_PHRASES)
    add_phrase(sentence, rng, "VP", VERB_PHRASES)
    if rng.random() < 0.7:
        add_phrase(sentence, rng, "NP", NOUN_PHRASES)
    while rng.random() < 0.5:
        add_phrase(sentence, rng, "PP", [["preposition"]])
        add_phrase(sentence, rng, "NP", NOUN_PHRASES[:-1])
    if rng.random() < 0.2:
        sentence.append((str(rng.choice(WORDS["adverb"])), "O"))
    return zip(*[*sentence, (".", "O")], strict=True)


rng = np.random.default_rng(0)
words, labels = map(list, zip(*(make_sentence(rng) for _ in range(600)), strict=True))
labels = [list(y) for y in labels]
print(" ".join(f"{w}/{b}" for w, b in zip(words[0], labels[0], strict=True)))

# %%
# Features
# --------
# Each word is a dict of features. :class:`~skmrf.SequenceVectorizer` adds the words before and
# after each word. The first 200 sentences are the training set.

tokens = [[{"word": w, "ending": w[-2:]} for w in sentence] for sentence in words]
vectorizer = SequenceVectorizer({"word": [-1, 0, 1], "ending": [0]})
X, y = vectorizer.fit_transform(tokens[:200]), labels[:200]
X_test, y_test = vectorizer.transform(tokens[200:]), labels[200:]

# %%
# Joint and separate predictions
# ------------------------------
# If each word is a sequence of length one, the CRF is a multinomial logistic regression, which
# predicts each label separately. Both models have the same features, and thus the same neighbouring
# words. Only the chain knows the neighbouring labels. ``allowed="iob2"`` excludes label sequences
# that are not valid, such as an I-NP after a B-VP.

chain = CRF(random_state=0).fit(X, y)
separate = CRF(random_state=0).fit(sparse.vstack(X), np.concatenate(y))
predictions = {
    "separate labels": [separate.predict(x) for x in X_test],
    "chain": chain.predict(X_test),
    "chain, valid labels": chain.predict(X_test, allowed="iob2"),
}
for name, predicted in predictions.items():
    scores = sequence_scores(y_test, predicted)
    print(
        f"{name:20} F1 of phrases {scores['span_f1']:.3f}, "
        f"correct sentences {scores['sequence_accuracy']:.1%}"
    )

# %%
# Probabilities of a sentence
# ---------------------------
# The figure shows the probability of each label of each word of a test sentence. The circles are
# the labels of the most probable labelling.

shown = max(
    range(100), key=lambda i: sum(w in BOTH.split() for w in words[200 + i]) - len(y_test[i]) / 4
)
p = chain.predict_marginals(X_test[shown : shown + 1])[0]
best = chain.predict(X_test[shown : shown + 1])[0]
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
image = axes.imshow(p.T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes.plot(
    range(len(p)), np.searchsorted(chain.classes_, best), "o", color="#c8781e", markersize=11,
    markerfacecolor="none", markeredgewidth=2,
)  # fmt: skip
axes.set_xticks(range(len(p)), words[200 + shown], rotation=30, ha="right")
axes.set_yticks(range(len(chain.classes_)), chain.classes_)
figure.colorbar(image, label="probability")

path = "crf_chunking.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
