#!/usr/bin/env python3
"""What share of the misses of one order another one takes away, for two runs of `earmark-lab recipe` on the same splits.

    scripts/error_reduction.py A/rows.jsonl B/rows.jsonl [--dataset locomo] [--method learned] [--base static]

The error reduction is (R - R0) / (1 - R0) with Recall@5 R of the method and R0 of the base, over the test questions of
all seeds together. The 95 % interval of the difference is a percentile bootstrap over questions, paired between the two
runs.
"""

import argparse
import json
import random


def questions(path, dataset, methods):
    """For each test question of each seed, in order, a tuple of what each method scored."""
    with open(path) as file:
        rows = [row for row in map(json.loads, file) if row["dataset"] == dataset and row["method"] in methods]
    scores = {(row["seed"], row["method"]): [int(digit) for digit in row["recall_by_question"]] for row in rows}
    seeds = sorted({seed for seed, _ in scores})
    return [pair for seed in seeds for pair in zip(*(scores[seed, method] for method in methods), strict=True)]


def reduction(pairs):
    base, method = (sum(column) for column in zip(*pairs))
    return (method - base) / (len(pairs) - base)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs=2)
    parser.add_argument("--dataset", default="locomo")
    parser.add_argument("--method", default="learned")
    parser.add_argument("--base", default="static")
    parser.add_argument("--resamples", type=int, default=2000)
    options = parser.parse_args()

    first, second = (questions(path, options.dataset, [options.base, options.method]) for path in options.rows)
    if len(first) != len(second):
        parser.error("the two runs have different test questions")
    both, chance = list(zip(first, second)), random.Random(1)

    def difference(sample):
        one, other = zip(*sample)
        return reduction(other) - reduction(one)

    drawn = sorted(difference(chance.choices(both, k=len(both))) for _ in range(options.resamples))
    low, high = drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn))]
    print(f"{options.dataset}, {options.method} over {options.base}: {100 * reduction(first):.1f} % and "
          f"{100 * reduction(second):.1f} %; difference {100 * difference(both):.1f} [{100 * low:.1f}, {100 * high:.1f}]")


if __name__ == "__main__":
    main()
