"""Times one learning step in NumPy (float32): `python step_bench.py DIMENSION LESSONS SECONDS`.

Prints two medians in milliseconds: the reference's own functions, lesson by lesson, and the fastest NumPy we know how
to write (all lessons in one matrix product, Adam in place in preallocated arrays). Threads: OPENBLAS_NUM_THREADS.
"""

import sys
import time

import numpy as np

import ear_reference as reference

K, S = 20, 5
P = reference.PAPER


def lessons(d, n, rng):
    """n lessons: queries, memories and one judged slate each."""
    queries = rng.normal(size=(n, d)).astype(np.float32)
    memories = rng.normal(size=(n, K, d)).astype(np.float32)
    slates = [(rng.permutation(K)[:S].tolist(), rng.choice([-1, 1], S).tolist(), None) for _ in range(n)]
    return queries, memories, slates


def reference_step(weights, optimizer, queries, memories, slates):
    total = None
    for query, candidates, slate in zip(queries, memories, slates):
        _, gradient = reference.ranking_loss(weights, P, query, candidates, [slate])
        total = gradient if total is None else [a + b for a, b in zip(total, gradient)]
    optimizer.update(weights, total)


class Batched:
    """The same step without a loop over lessons."""

    def __init__(self, d):
        self.first, self.second = np.zeros((2, d, d), np.float32), np.zeros((2, d, d), np.float32)
        self.gradient, self.root = np.empty((d, d), np.float32), np.empty((d, d), np.float32)
        self.step = 0

    def __call__(self, weights, queries, memories, slates):
        n, _, d = memories.shape
        rows = memories.reshape(n * K, d)
        q, m = queries @ weights[0].T, rows @ weights[1].T
        q += queries
        m += rows
        length_q, length_m = np.linalg.norm(q, axis=1), np.linalg.norm(m, axis=1)
        q /= length_q[:, None]
        m /= length_m[:, None]
        m = m.reshape(n, K, d)
        z = np.einsum("nkd,nd->nk", m, q)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        c = np.zeros_like(z)
        for at, (places, labels, _) in enumerate(slates):
            c[at, places] = (np.array(labels) - P["baseline"]) / len(places)
        dz = p * c.sum(axis=1, keepdims=True) - c
        d_q = np.einsum("nkd,nk->nd", m, dz)
        d_q -= q * (dz * z).sum(axis=1)[:, None]
        d_q /= length_q[:, None]
        m *= -(dz * z)[:, :, None]
        m += dz[:, :, None] * q[:, None, :]
        m /= length_m.reshape(n, K, 1)
        self.step += 1
        self.adam(0, weights[0], d_q, queries)
        self.adam(1, weights[1], m.reshape(n * K, d), rows)

    def adam(self, k, weights, left, right):
        b1, b2 = P["adam_beta1"], P["adam_beta2"]
        g, root, first, second = self.gradient, self.root, self.first[k], self.second[k]
        np.matmul(left.T, right, out=g)
        first *= b1
        np.multiply(g, 1 - b1, out=root)
        first += root
        second *= b2
        np.multiply(g, g, out=g)
        g *= 1 - b2
        second += g
        np.sqrt(second, out=root)
        root *= 1 / np.sqrt(1 - b2 ** self.step)
        root += P["adam_epsilon"]
        np.divide(first, root, out=root)
        root *= P["learning_rate"] / (1 - b1 ** self.step)
        weights -= root


def median_ms(step, seconds):
    step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[len(times) // 2]


def check():
    """Both ways give the same weights."""
    rng, d = np.random.default_rng(1), 32
    batch = lessons(d, 5, rng)
    one, two = ([np.zeros((d, d), np.float32) for _ in range(2)] for _ in range(2))
    optimizer, batched = reference.Optimizer(P, one), Batched(d)
    for _ in range(3):
        reference_step(one, optimizer, *batch)
        batched(two, *batch)
    assert all(np.abs(a - b).max() < 1e-5 for a, b in zip(one, two))
    assert all(w.dtype == np.float32 for w in one)


if __name__ == "__main__":
    d, n, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    check()
    batch = lessons(d, n, np.random.default_rng(0))
    weights = [np.zeros((d, d), np.float32) for _ in range(2)]
    optimizer, batched = reference.Optimizer(P, weights), Batched(d)
    plain = median_ms(lambda: reference_step(weights, optimizer, *batch), seconds)
    print(plain, median_ms(lambda: batched(weights, *batch), seconds))
