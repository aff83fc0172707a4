"""Reference of the whole training loop in NumPy (float64), written from the paper, one query at a time.

    python ear_reference.py make-input > input.json     # synthetic bank, queries, gold, parameters, uniforms
    python ear_reference.py run input.json > output.json  # slates, losses and final weights of every run

Random numbers are read from recorded lists: `critic_uniforms` (one for each place of each judged slate) and
`learner_uniforms` (per query: noise of sampled training slates, random replay, noise of replayed slates).
Parameters have the names of the Rust struct `Params`; those not given have the paper's value.
"""

import json
import sys

import numpy as np

PAPER = dict(
    candidates=20, slate_size=5, rounds=4, similarity="cosine",
    relevance_weight=0.4, diversity_weight=0.3, exploration_weight=0.3, exploration_strength=0.5,
    training_slate="explorer", optimizer="adam", learning_rate=1e-3,
    adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8,
    baseline=0.5, batch_size=4, replay_size=4, replay_weight=1.0, replay_sampling="similarity",
    replay_unobserved="negative", gumbel_temperature=0.5, probability="full_softmax",
    log_probability="plain", temperature=1.0,
)
CRITIC_PRECISION, CRITIC_RECALL = 0.88, 0.86


class Stream:
    """Recorded uniform numbers, read in order."""

    def __init__(self, numbers):
        self.numbers, self.at = numbers, 0

    def __call__(self):
        self.at += 1
        return self.numbers[self.at - 1]


def best(scores, n):
    """Places of the n highest scores, best first, ties by lower place."""
    return np.argsort(-np.asarray(scores), kind="stable")[:n].tolist()


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def adapt(weights, p, query, memories):
    """Eq. (3): adapted query and memories, and the lengths that divided them (1 for the dot product)."""
    w_q, w_m = weights
    q = query + w_q @ query
    m = memories + memories @ w_m.T
    if p["similarity"] == "dot":
        return q, m, 1.0, np.ones(len(m), m.dtype)
    length_q, length_m = np.linalg.norm(q), np.linalg.norm(m, axis=1)
    return q / length_q, m / length_m[:, None], length_q, length_m


def explorer_slate(p, z, m, pulls, means):
    """Eq. (5) to (8), Algorithm 2."""
    slate, left, total = [], list(range(len(z))), sum(pulls)
    for _ in range(min(p["slate_size"], len(z))):
        scores = []
        for i in left:
            bonus = p["exploration_strength"] * np.sqrt(np.log(1 + total) / (1 + pulls[i]))
            redundancy = max((m[i] @ m[l] for l in slate), default=0.0)
            scores.append(p["relevance_weight"] * z[i] - p["diversity_weight"] * redundancy
                          + p["exploration_weight"] * (means[i] + bonus))
        slate.append(left.pop(int(np.argmax(scores))))
    return slate


def gumbel_slate(p, z, uniform):
    """Eq. (19)."""
    noise = np.array([-np.log(-np.log(uniform())) for _ in z])
    return best(z + noise, p["slate_size"]), noise


def critic(slate, gold, uniform):
    """Appendix A.2: labels +1 and -1, one uniform for each place."""
    n = sum(i in gold for i in slate)
    others = len(slate) - n
    wrong = n * CRITIC_RECALL * (1 - CRITIC_PRECISION) / (others * CRITIC_PRECISION) if others else 0.0
    return [1 if uniform() < (CRITIC_RECALL if i in gold else min(wrong, 1.0)) else -1 for i in slate]


def ranking_loss(weights, p, query, memories, slates):
    """Eq. (10) over `slates` [(places, labels, noise)], and its gradient in (W_q, W_m).

    A label of None counts nowhere but in what Plackett-Luce has taken out of the softmax.
    """
    q, m, length_q, length_m = adapt(weights, p, query, memories)
    z = m @ q
    loss, dz = 0.0, np.zeros_like(z)
    for places, labels, noise in slates:
        perturbed = p["log_probability"] == "perturbed" and noise is not None
        temperature = p["gumbel_temperature"] if perturbed else p["temperature"]
        logits = (z + noise if perturbed else z) / temperature
        share = 1.0 / (len(slates) * sum(y is not None for y in labels))
        open_ = np.ones(len(z), bool)
        for i, y in zip(places, labels):
            if y is not None:
                powers = np.exp(logits - logits.max()) * open_
                prob = powers / powers.sum()
                advantage = share * (y - p["baseline"])
                loss -= advantage * np.log(prob[i])
                one = np.zeros_like(z)
                one[i] = 1.0
                dz += advantage * (prob - one) / temperature  # d(-ln p_i)/dz = p - e_i
            if p["probability"] == "plackett_luce":
                open_[i] = False
    d_q, d_m = m.T @ dz, np.outer(dz, q)
    if p["similarity"] == "cosine":  # the Jacobian of x/|x| is (I - x x^T / |x|^2) / |x|
        d_q = (d_q - q * (q @ d_q)) / length_q
        d_m = (d_m - m * np.sum(m * d_m, axis=1, keepdims=True)) / length_m[:, None]
    return loss, (np.outer(d_q, query), d_m.T @ memories)


def choose_replay(p, query, buffer, uniform):
    """Eq. (15) and the other rows of Table 7."""
    n = p["replay_size"]
    if p["replay_sampling"] == "similarity":
        places = best([cosine(query, e["query"]) for e in buffer], n)
    elif p["replay_sampling"] == "reward":
        places = best([-np.mean(list(e["feedback"].values())) for e in buffer], n)
    else:  # the first places of a shuffle
        places = list(range(len(buffer)))
        for at in range(min(n, len(places))):
            other = at + min(int(uniform() * (len(places) - at)), len(places) - at - 1)
            places[at], places[other] = places[other], places[at]
        places = places[:n]
    return [buffer[i] for i in places]


def replay_slate(weights, p, experience, uniform):
    """Algorithm 3, lines 17 to 19, with the labels of Eq. (20)."""
    q, m, _, _ = adapt(weights, p, experience["query"], experience["memories"])
    places, noise = gumbel_slate(p, m @ q, uniform)
    unseen = -1 if p["replay_unobserved"] == "negative" else None
    labels = [(1 if experience["feedback"][i] > 0 else -1) if i in experience["feedback"] else unseen for i in places]
    return places, labels, noise


class Optimizer:
    def __init__(self, p, weights):
        self.p, self.step = p, 0
        self.first = [np.zeros_like(w) for w in weights]
        self.second = [np.zeros_like(w) for w in weights]

    def update(self, weights, gradient):
        """Eq. (18), by Adam or by plain descent."""
        p = self.p
        self.step += 1
        for k, g in enumerate(gradient):
            if p["optimizer"] == "sgd":
                weights[k] = weights[k] - p["learning_rate"] * g
                continue
            b1, b2 = p["adam_beta1"], p["adam_beta2"]
            self.first[k] = b1 * self.first[k] + (1 - b1) * g
            self.second[k] = b2 * self.second[k] + (1 - b2) * g * g
            m_hat = self.first[k] / (1 - b1 ** self.step)
            v_hat = self.second[k] / (1 - b2 ** self.step)
            weights[k] = weights[k] - p["learning_rate"] * m_hat / (np.sqrt(v_hat) + p["adam_epsilon"])


def explore(weights, p, query, memories, gold, judge, uniform):
    """The rounds of one query: [(places, labels, noise)]."""
    q, m, _, _ = adapt(weights, p, query, memories)
    z = m @ q
    pulls, means, rounds = [0] * len(z), [0.0] * len(z), []
    for _ in range(p["rounds"]):
        noise = None
        if p["training_slate"] == "explorer":
            places = explorer_slate(p, z, m, pulls, means)
        elif p["training_slate"] == "gumbel":
            places, noise = gumbel_slate(p, z, uniform)
        else:
            places = best(z, p["slate_size"])
        labels = critic(places, gold, judge)
        for i, y in zip(places, labels):  # Eq. (9)
            pulls[i] += 1
            means[i] += (y - means[i]) / pulls[i]
        rounds.append((places, labels, noise))
    return rounds


def feedback_of(rounds):
    """Eq. (11) and (12): mean label of every judged candidate."""
    labels = {}
    for places, ys, _ in rounds:
        for i, y in zip(places, ys):
            labels.setdefault(i, []).append(y)
    return {i: float(np.mean(ys)) for i, ys in labels.items()}


def train(data, run):
    """Algorithms 1 and 3 over all queries."""
    p = PAPER | run["params"]
    bank, judge, uniform = np.array(data["bank"]), Stream(data["critic_uniforms"]), Stream(data["learner_uniforms"])
    d = bank.shape[1]
    start = data["initial_weights"] if run["given_weights"] else np.zeros((2, d, d))
    weights = [np.array(start[0]), np.array(start[1])]
    optimizer, buffer, batch = Optimizer(p, weights), [], []
    result = dict(name=run["name"], candidates=[], slates=[], labels=[], losses=[])
    for question in data["questions"]:
        query = np.array(question["query"])
        rows = best([cosine(query, m) for m in bank], p["candidates"])  # Eq. (1)
        memories, gold = bank[rows], {rows.index(g) for g in question["gold"] if g in rows}
        rounds = explore(weights, p, query, memories, gold, judge, uniform)
        loss, gradient = ranking_loss(weights, p, query, memories, rounds)
        replayed = choose_replay(p, query, buffer, uniform)
        for experience in replayed:  # Eq. (16) and (17)
            slate = replay_slate(weights, p, experience, uniform)
            if all(y is None for y in slate[1]):
                continue
            replay_loss, more = ranking_loss(weights, p, experience["query"], experience["memories"], [slate])
            scale = p["replay_weight"] / len(replayed)
            loss += scale * replay_loss
            gradient = [g + scale * extra for g, extra in zip(gradient, more)]
        batch.append((loss, gradient))
        buffer.append(dict(query=query, memories=memories, feedback=feedback_of(rounds)))
        if len(batch) == p["batch_size"]:
            optimizer.update(weights, [sum(g[k] for _, g in batch) / len(batch) for k in range(2)])
            result["losses"].append(sum(l for l, _ in batch) / len(batch))
            batch = []
        result["candidates"].append(rows)
        result["slates"].append([places for places, _, _ in rounds])
        result["labels"].append([labels for _, labels, _ in rounds])
    result["weights"] = [w.round(7).tolist() for w in weights]
    result["drawn"] = [judge.at, uniform.at]
    return result


def make_input(seed=17879, d=16, memories=40, queries=24):
    """A bank, queries whose gold memories lie where a hidden map sends them, and the runs."""
    rng = np.random.default_rng(seed)
    bank = rng.normal(size=(memories, d))
    centres, hidden = rng.normal(size=(4, d)), rng.normal(size=(d, d)) / np.sqrt(d)
    questions = []
    for n in range(queries):
        query = centres[n % 4] + 0.7 * rng.normal(size=d)
        gold = best(bank @ (query + 0.8 * hidden @ query), 1 + n % 3)
        questions.append(dict(query=query.round(4).tolist(), gold=gold))
    small = dict(candidates=12, batch_size=3, learning_rate=0.01)
    runs = [
        ("adam", False, {}),
        ("sgd", False, dict(optimizer="sgd", learning_rate=2.0)),
        ("kaiming_adam", True, dict(batch_size=1)),
        ("rl_update", False, dict(rounds=1, training_slate="gumbel", replay_size=0)),
        ("rl_update_perturbed", True, dict(rounds=1, training_slate="gumbel", replay_size=0,
                                           log_probability="perturbed")),
        ("plackett_luce", True, dict(probability="plackett_luce", temperature=0.2)),
        ("replay_random", False, dict(replay_sampling="random", replay_weight=0.5)),
        ("replay_reward_skip", True, dict(replay_sampling="reward", replay_unobserved="skip", rounds=2)),
        ("dot_sgd", True, dict(similarity="dot", optimizer="sgd", learning_rate=0.01, training_slate="top_score",
                               relevance_weight=0.05, diversity_weight=0.02)),
        ("sequential_perturbed_skip", True, dict(probability="plackett_luce", log_probability="perturbed", rounds=1,
                                                 replay_unobserved="skip", training_slate="gumbel")),
    ]
    uniforms = lambda n: rng.uniform(0.0005, 0.9995, size=n).round(5).tolist()
    bound = 1 / np.sqrt(d)
    return dict(
        bank=bank.round(4).tolist(), questions=questions,
        initial_weights=rng.uniform(-bound, bound, size=(2, d, d)).round(5).tolist(),
        critic_uniforms=uniforms(queries * 20), learner_uniforms=uniforms(queries * 60),
        runs=[dict(name=name, given_weights=given, params=small | params) for name, given, params in runs],
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["make-input"]:
        out = make_input()
    elif len(sys.argv) == 3 and sys.argv[1] == "run":
        with open(sys.argv[2], encoding="utf-8") as file:
            data = json.load(file)
        out = [train(data, run) for run in data["runs"]]
    else:
        sys.exit(__doc__)
    json.dump(out, sys.stdout, separators=(",", ":"))
    print()
