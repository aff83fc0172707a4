"""Times one learning step in NumPy (float32): `python step_bench.py DIMENSION QUERIES SECONDS wall|cpu`.

A step is what QUERIES closed queries cost the adapter: each with four rounds of labels and four replayed experiences
(slates sampled by the Gumbel trick), then one update. Prints two times in milliseconds: the reference's own functions,
lesson by lesson, and the fastest NumPy we know how to write (one matrix product over all lessons that also serves the
sampling, Adam in place in preallocated arrays). `wall` is a median, `cpu` the mean CPU time of the process, for machines
that are busy with other work. Threads: OPENBLAS_NUM_THREADS.
"""

import sys
import time

import numpy as np

import ear_reference as reference

K, S = 20, 5
P = reference.PAPER


def queries(d, n, rng):
    """n queries, each with its rounds and four replayed experiences."""
    vectors = lambda *shape: rng.normal(size=shape).astype(np.float32)
    slate = lambda: (rng.permutation(K)[:S].tolist(), rng.choice([-1, 1], S).tolist(), None)
    experience = lambda: dict(query=vectors(d), memories=vectors(K, d),
                              feedback={i: float(rng.choice([-1, 0.5, 1])) for i in rng.permutation(K)[:14].tolist()})
    return [(vectors(d), vectors(K, d), [slate() for _ in range(P["rounds"])],
             [experience() for _ in range(P["replay_size"])]) for _ in range(n)]


def reference_step(weights, optimizer, batch, uniform):
    total = [np.zeros_like(w) for w in weights]
    for query, memories, rounds, replayed in batch:
        _, gradient = reference.ranking_loss(weights, P, query, memories, rounds)
        total = [a + b for a, b in zip(total, gradient)]
        for e in replayed:
            slate = reference.replay_slate(weights, P, e, uniform)
            _, gradient = reference.ranking_loss(weights, P, e["query"], e["memories"], [slate])
            total = [a + b / len(replayed) for a, b in zip(total, gradient)]
    optimizer.update(weights, [g / len(batch) for g in total])


class Batched:
    """The same step with one matrix product over all lessons."""

    def __init__(self, d):
        self.first, self.second = np.zeros((2, d, d), np.float32), np.zeros((2, d, d), np.float32)
        self.gradient, self.root = np.empty((d, d), np.float32), np.empty((d, d), np.float32)
        self.step = 0

    def __call__(self, weights, batch, uniform):
        lessons = [x for query, memories, rounds, replayed in batch
                   for x in [(query, memories, rounds, None)] + [(e["query"], e["memories"], None, e) for e in replayed]]
        n, d = len(lessons), len(weights[0])
        queries, rows = np.stack([x[0] for x in lessons]), np.concatenate([x[1] for x in lessons])
        q, m = queries @ weights[0].T, rows @ weights[1].T
        q += queries
        m += rows
        length_q, length_m = np.linalg.norm(q, axis=1), np.linalg.norm(m, axis=1)
        q /= length_q[:, None]
        m /= length_m[:, None]
        m = m.reshape(n, K, d)
        z = np.matmul(m, q[:, :, None])[:, :, 0]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        c = np.zeros_like(z)
        for at, (_, _, rounds, experience) in enumerate(lessons):
            self.coefficients(c[at], z[at], rounds, experience, len(batch), uniform)
        dz = p * c.sum(axis=1, keepdims=True) - c
        d_q = np.matmul(dz[:, None, :], m)[:, 0, :]
        d_q -= q * (dz * z).sum(axis=1)[:, None]
        d_q /= length_q[:, None]
        scale = length_m.reshape(n, K)
        m *= (-(dz * z) / scale)[:, :, None]
        m += (dz / scale)[:, :, None] * q[:, None, :]
        self.step += 1
        self.adam(0, weights[0], d_q, queries)
        self.adam(1, weights[1], m.reshape(n * K, d), rows)

    @staticmethod
    def coefficients(c, z, rounds, experience, queries, uniform):
        weight = 1.0 / queries
        if rounds is None:
            weight /= P["replay_size"]
            noise = -np.log(-np.log(np.array([uniform() for _ in range(K)])))
            places, feedback = np.argsort(-(z + noise), kind="stable")[:S].tolist(), experience["feedback"]
            rounds = [(places, [1 if feedback.get(i, 0) > 0 else -1 for i in places], None)]
        for places, labels, _ in rounds:
            c[places] += weight * (np.array(labels) - P["baseline"]) / (len(places) * len(rounds))

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


def cost_ms(step, seconds, clock):
    step()
    times, cpu, end = [], time.process_time(), time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    mean_cpu = (time.process_time() - cpu) / len(times)
    return 1e3 * (mean_cpu if clock == "cpu" else sorted(times)[len(times) // 2])


def uniforms():
    rng = np.random.default_rng(2)
    return lambda: 0.0005 + 0.999 * rng.random()


def check():
    """Both ways give the same weights."""
    rng, d = np.random.default_rng(1), 32
    batch, one_uniform, two_uniform = queries(d, 2, rng), uniforms(), uniforms()
    one, two = ([np.zeros((d, d), np.float32) for _ in range(2)] for _ in range(2))
    optimizer, batched = reference.Optimizer(P, one), Batched(d)
    for _ in range(3):
        reference_step(one, optimizer, batch, one_uniform)
        batched(two, batch, two_uniform)
    assert all(np.abs(a - b).max() < 1e-5 for a, b in zip(one, two)), "the two NumPy steps disagree"
    assert all(w.dtype == np.float32 for w in one)


if __name__ == "__main__":
    d, n, seconds, clock = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    check()
    batch = queries(d, n, np.random.default_rng(0))
    uniform, weights = uniforms(), [np.zeros((d, d), np.float32) for _ in range(2)]
    optimizer, batched = reference.Optimizer(P, weights), Batched(d)
    plain = cost_ms(lambda: reference_step(weights, optimizer, batch, uniform), seconds, clock)
    print(plain, cost_ms(lambda: batched(weights, batch, uniform), seconds, clock))
