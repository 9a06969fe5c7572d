"""
Reading words from images of letters (OCR) with a CRF
=====================================================

Each letter of a word is a small noisy image. A classifier of single images does not know which
letters follow each other in English. A conditional random field, :class:`~skmrf.CRF`, learns this
from the training words, and reads all letters of a word jointly. The example takes about ten
seconds.
"""

# %%
# Images of words
# ---------------
# The words are those of some docstrings of scikit-learn. Each word is drawn in a random font of
# Matplotlib. Letters are rotated and shifted at random, and have noise. No test word is a training
# word.

import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from sklearn import cluster, ensemble, linear_model, svm

from skmrf import CRF

HEIGHT, WIDTH, NOISE = 14, 11, 0.2  # noise: standard deviation; white is 0 and black is 1
FONTS = ["DejaVuSans", "DejaVuSerif", "DejaVuSans-Oblique", "cmr10", "cmtt10", "STIXGeneral"]
folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
fonts = [ImageFont.truetype(folder / f"{name}.ttf", 13) for name in FONTS]
forest, regression = ensemble.RandomForestClassifier, linear_model.LogisticRegression
text = " ".join(c.__doc__ for c in (forest, regression, svm.SVC, cluster.KMeans)).lower()
words = sorted(set(re.findall(r"\b[a-z]{4,9}\b", text)))


def draw_letter(letter, font, rng):
    """Return the noisy image of a letter as a vector of pixels."""
    image = Image.new("L", (WIDTH, HEIGHT))
    middle = WIDTH / 2 + rng.uniform(-0.5, 0.5), 10 + rng.uniform(-0.5, 0.5)
    ImageDraw.Draw(image).text(middle, letter, fill=255, font=font, anchor="ms")
    ink = np.asarray(image.rotate(rng.uniform(-8, 8), Image.Resampling.BILINEAR)) / 255
    return ink.ravel() + NOISE * rng.normal(size=ink.size)


def draw_word(word, rng):
    """Return the images of the letters of a word, shape (n_letters, n_pixels)."""
    font = fonts[rng.integers(len(fonts))]
    return np.stack([draw_letter(letter, font, rng) for letter in word])


rng = np.random.default_rng(0)
rng.shuffle(words)
train, test = 2 * words[:400], words[400:]
X, X_test = ([draw_word(word, rng) for word in part] for part in (train, test))
y, y_test = ([list(word) for word in part] for part in (train, test))
print(f"{len(train)} images of training words, such as {', '.join(train[:4])}")

# %%
# Two models
# ----------
# Both models have the same features, the pixels of a letter.

model = CRF(random_state=0).fit(X, y)
separate = regression(C=0.03, max_iter=1000)
separate.fit(np.concatenate(X), np.concatenate(y))
readings = {
    "separate letters": ["".join(separate.predict(x)) for x in X_test],
    "CRF": ["".join(letters) for letters in model.predict(X_test)],
}
for name, found in readings.items():
    error = np.mean(np.array(list("".join(found))) != np.concatenate(y_test))
    print(
        f"{name:17} wrong letters {error:.1%}, wrong words {np.mean(np.array(found) != test):.1%}"
    )

# %%
# The most probable words
# -----------------------
# ``predict_best`` returns the most probable readings of a word with their probabilities.

wrong = next(i for i, found in enumerate(readings["CRF"]) if found != test[i])
best, p = model.predict_best(X_test[wrong : wrong + 1], 4)
print("true word:", test[wrong])
for letters, probability in zip(best[0], p[0], strict=True):
    print(f"  {''.join(letters)}: {probability:.2f}")

# %%
# Images and readings
# -------------------
# The figure shows four test words and their readings by both models. Wrong letters are red.

alone = readings["separate letters"]
mistakes = [sum(map(str.__ne__, found, word)) for found, word in zip(alone, test, strict=True)]
chosen = [i for i in np.argsort(mistakes)[::-3] if len(test[i]) == 8][:4]
figure, grid = plt.subplots(4, 1, figsize=(6, 4.3), layout="constrained")
for i, axes in zip(chosen, grid, strict=True):
    axes.imshow(np.hstack(X_test[i].reshape(-1, HEIGHT, WIDTH)), cmap="Greys", vmin=-0.5, vmax=1.3)
    for (name, found), y in zip(readings.items(), (HEIGHT + 2, HEIGHT + 7), strict=True):
        axes.text(-2, y, name, ha="right", va="center")
        for k, (letter, truth) in enumerate(zip(found[i], test[i], strict=True)):
            colour = "black" if letter == truth else "tab:red"
            x = (k + 0.5) * WIDTH
            axes.text(x, y, letter, ha="center", va="center", size=15, color=colour)
    axes.axis("off")

path = "crf_ocr.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
