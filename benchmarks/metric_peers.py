"""metric-learn on given folds, started by ``benchmarks.metric``; prints lines of JSON, each with all results so far."""

import json
import sys
import time
import warnings

import numpy as np
from metric_learn import LMNN, NCA, ITML_Supervised
from sklearn.neighbors import KNeighborsClassifier

warnings.simplefilter("ignore")


def main():
    folds = np.load(sys.argv[1])
    seconds = float(sys.argv[2])
    number = len(folds.files) // 4
    makers = {
        "metric-learn LMNN": lambda: LMNN(n_neighbors=3, random_state=0),
        "metric-learn NCA": lambda: NCA(random_state=0),
        "metric-learn ITML": lambda: ITML_Supervised(random_state=0),
    }
    found = {}
    for name, make in makers.items():
        scores, times = [], []
        began = time.monotonic()
        for fold in range(number):
            if time.monotonic() - began > seconds:
                break
            a, b, y_a, y_b = (folds[f"{fold}_{key}"] for key in "abcd")
            start = time.process_time()
            fitted = make().fit(a, y_a)
            times.append(time.process_time() - start)
            scores.append(float(KNeighborsClassifier(3).fit(fitted.transform(a), y_a).score(fitted.transform(b), y_b)))
        found[name] = {"scores": scores, "seconds": times}
        print(json.dumps(found), flush=True)  # the last line counts: who stops us keeps what is done


if __name__ == "__main__":
    main()
