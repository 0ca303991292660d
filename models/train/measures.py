"""What a detector is measured by, in numpy only: shared by the choice of a checkpoint and by the card's figures."""
import numpy as np


def auc(positive, negative):
    """ROC-AUC: the share of (positive, negative) couples ranked right, ties half."""
    negative = np.sort(negative)
    below, upto = np.searchsorted(negative, positive, "left"), np.searchsorted(negative, positive, "right")
    return (below + upto).sum() / (2 * len(positive) * len(negative))


def average_precision(labels, scores):
    """PR-AUC as average precision: the sum over thresholds of precision x growth of recall; equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.append(np.nonzero(np.diff(ordered))[0], len(ordered) - 1)
    right = np.cumsum(labels[order])[ends]
    return float((np.diff(right, prepend=0) * right / (ends + 1)).sum() / labels.sum())


def auc_of_like_length(length, labels, scores):
    """ROC-AUC within fifths of length (cut at these functions' own quantiles), weighted by the couples in each: what length alone does not
    explain. 0.5 where no fifth holds both classes."""
    fifth = np.digitize(length, np.quantile(length, [0.2, 0.4, 0.6, 0.8]))
    areas, couples = [], []
    for k in range(5):
        positive, negative = scores[labels & (fifth == k)], scores[~labels & (fifth == k)]
        if len(positive) and len(negative):
            areas.append(auc(positive, negative))
            couples.append(len(positive) * len(negative))
    return float(np.average(areas, weights=couples)) if areas else 0.5


def ranked_right(vulnerable, fixed):
    """For each pair 1 where the vulnerable function scores higher, 0.5 for a tie, else 0."""
    return (vulnerable > fixed) + 0.5 * (vulnerable == fixed)


def of_like_length(vulnerable, fixed):
    """Pairs whose lengths differ by at most 5% of the longer side."""
    return np.abs(vulnerable - fixed) <= 0.05 * np.maximum(vulnerable, fixed)


def budget(benign, share=0.1):
    """The threshold above which at most `share` of the benign scores lie."""
    held = np.sort(benign)
    return held[len(held) - int(share * len(held)) - 1]


def calibration_error(labels, probabilities, bins=10):
    """Expected calibration error over `bins` of equally many functions: the mean gap of mean probability and share of vulnerable ones.

    Not bins of equal width: an unsure detector's probabilities all lie in one of those. Equal probabilities stay in one bin.
    """
    edges = np.quantile(probabilities, np.arange(1, bins) / bins)
    place = np.digitize(probabilities, np.unique(edges), right=True)
    count = np.bincount(place)
    gap = np.bincount(place, weights=probabilities - labels)
    return float(np.abs(gap).sum() / count.sum())
