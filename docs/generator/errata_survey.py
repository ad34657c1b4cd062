"""What the survey misprints: where, what is wrong, what the library does."""

SIGNS = [
    (
        "Eq. 8, 9 (N-pair)",
        "differences of products stand under the logarithm without an exponential; the argument can be negative",
        "log(1 + sum of exponentials), as a log-sum-exp",
    ),
    (
        "Eq. 14 (NCA)",
        "a probability is a quotient of negative distances; the exponentials are missing",
        "softmax of negative squared distances, self left out",
    ),
    (
        "Eq. 15 (NCA)",
        "numerator and denominator run over the same set, so that the loss is always 0",
        "own class above; all others (`prob`) or other classes (`ratio`) below",
    ),
    (
        "Eq. 17 (ProxyNCA++)",
        "1/T multiplies every term above and below and cancels: the temperature does nothing",
        "distances are divided by T inside the exponential",
    ),
    (
        "Eq. 19",
        "the sum below lacks exponentials, so the weights of the negatives do not add up to 1",
        "softmax over the negative proxies",
    ),
    ("Eq. 20", "the second case has a minus: negatives would be attracted", "plus; and 1/C before it, as in the loss"),
    (
        "Eq. 23, 26 (ProxyGML)",
        "cross entropies without their minus: minimising them makes classification worse",
        "minus; the label is an indicator for each class",
    ),
    (
        "Eq. 33 (direction)",
        "the triplet loss lost its hinge: satisfied triplets keep a gradient; the loss goes below 0 (on unit vectors "
        "not below alpha - 4 - gamma, on free vectors without end)",
        "hinge around the whole argument",
    ),
]

SETS = [
    (
        "Eq. 5 (triplet)",
        "the sum runs over anchor, positive and negative without saying which triplets are valid",
        "positive of the anchor's class, negative of another; the reduction has a name",
    ),
    ("Eq. 6", "gradients are given without a condition", "they hold while the hinge is active and vectors are free"),
    (
        "Eq. 9",
        "the index of the mean is the pair, and the inner sum is meant to run over the other pairs",
        "mean over N pairs of N classes",
    ),
    ("section 4.3, end", "fewer classes than samples in a batch", "at most half as many: each class brings two"),
    (
        "Eq. 10 to 13 (multi-similarity)",
        "a sample is not excluded from its own positives, and sums have no sets",
        "self is left out by index; sums run over the mined pairs",
    ),
    ("Eq. 16 (ProxyNCA)", "proxies are indexed by a set of samples", "all proxies but that of the own class"),
    (
        "Eq. 18 (ProxyAnchor)",
        "the negative part averages over a set of negative proxies",
        "over all C proxies, as the authors' code",
    ),
    (
        "Eq. 21 (ProxyGML)",
        "similarities are laid out proxies by samples, then read by rows of samples",
        "samples by proxies",
    ),
    ("Eq. 22", "entries are masked where they equal 0", "by whether the proxy was kept"),
    (
        "Eq. 24 to 26",
        "a softmax over single proxies is read as one over classes",
        "sum over the proxies of a class first",
    ),
    (
        "Eq. 28, 29 (language)",
        "batch size and number of classes share a letter; the product has no sum",
        "sum over j, mean over the batch",
    ),
    (
        "Eq. 34, 35 (direction)",
        "anchor and positive are not defined inside the sum",
        "the row, and its least similar positive",
    ),
]

MEANING = [
    (
        "introduction",
        "the hard case is described with both variances exchanged; the abstract has them right",
        "large variance within classes, small between them",
    ),
    ("section 3", "unit vectors of n dimensions are said to lie on an n-dimensional sphere", "it has n - 1 dimensions"),
    (
        "section 4.1 (contrastive)",
        "the negative hinge is on the squared distance; the original squares a hinge on the distance",
        "both: `euclid2` and `hadsell`",
    ),
    (
        "text at Eq. 8",
        "with one negative it is said to become the cosine triplet loss",
        "it becomes a softplus without margin",
    ),
    (
        "Eq. 29",
        "a shift of the language similarities is invisible to a softmax",
        "entries of one class are set to 1 + shift in both matrices, which makes it count",
    ),
    (
        "Eq. 29, direction",
        "none: image relative to language is what the authors' code does by default",
        "kept; the reverse is an option",
    ),
    ("Eq. 32", "the numerator holds only under Eq. 31", "the full product of the two difference vectors"),
    ("section 6.2, text", "speaks of minimising a cosine that all three equations reward", "the equations"),
    ("Eq. 21 to 26", "P is a proxy and a probability, M a count and a mask", "separate names"),
]
