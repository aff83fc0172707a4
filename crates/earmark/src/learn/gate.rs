//! The gate: is the learned order better than the static one on the user's own closed recalls, or worse?
//!
//! Each closed recall compares how well both orders agree with its labels, the learned one as it was before these
//! labels. The mean difference has a confidence sequence: an interval that holds at every moment at once, so it may
//! be looked at after each recall (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
//! betting", 2024, Theorem 2).

/// Chance that the interval ever misses the true mean.
const MISS: f64 = 0.05;
/// Largest bet on one comparison.
const MOST_BET: f64 = 0.5;
/// After so many comparisons a new interval begins, so that an order that turned bad is not covered by its past.
const STRETCH: u64 = 250;

/// Whether the learned order may rank, and the running comparison behind it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gate {
    paused: bool,
    now: Comparison,
}

impl Gate {
    /// Whether the learned order is held back.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The comparison since the last change or stretch.
    pub fn comparison(&self) -> &Comparison {
        &self.now
    }

    /// Takes in one closed recall: shares of its pairs (useful, not useful), in [0, 1], that either order has right.
    /// Pauses when the learned order is worse for sure, and lets it rank again when it is better for sure.
    pub fn observe(&mut self, fixed: f64, learned: f64) {
        self.now.observe(fixed, learned);
        let turns = match self.now.interval() {
            Some([_, high]) if !self.paused => high < 0.0,
            Some([low, _]) if self.paused => low > 0.0,
            _ => false,
        };
        self.paused ^= turns;
        if turns || self.now.count >= STRETCH {
            self.now = Comparison::default();
        }
    }

    /// For the store: [`Gate::NUMBERS`] numbers.
    pub fn to_numbers(&self) -> [f64; Gate::NUMBERS] {
        let Comparison { count, fixed, learned, sum, squares, bets, bet_sum, spread } = &self.now;
        let paused = f64::from(u8::from(self.paused));
        [paused, *count as f64, *fixed, *learned, *sum, *squares, *bets, *bet_sum, *spread]
    }

    /// How many numbers [`Gate::to_numbers`] gives.
    pub const NUMBERS: usize = 9;

    /// The gate that gave these numbers.
    pub fn from_numbers(numbers: [f64; Gate::NUMBERS]) -> Gate {
        let [paused, count, fixed, learned, sum, squares, bets, bet_sum, spread] = numbers;
        let now = Comparison { count: count as u64, fixed, learned, sum, squares, bets, bet_sum, spread };
        Gate { paused: paused != 0.0, now }
    }
}

/// A running comparison of two orders. Differences `d` in [-1, 1] are kept as `x = (d + 1) / 2`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    count: u64,
    fixed: f64,
    learned: f64,
    /// Sum of `x`.
    sum: f64,
    /// Sum of `(x_i - mean_i)^2`.
    squares: f64,
    /// Sum of the bets.
    bets: f64,
    /// Sum of `bet x`.
    bet_sum: f64,
    /// Sum of `4 (x_i - mean_{i-1})^2 psi(bet_i)`.
    spread: f64,
}

impl Comparison {
    /// Closed recalls compared.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean agreement with the labels, in [0, 1], of the static and of the learned order; `None` before the first.
    pub fn means(&self) -> Option<[f64; 2]> {
        let n = self.count as f64;
        (self.count > 0).then(|| [self.fixed / n, self.learned / n])
    }

    /// Where the (bet-weighted) mean difference learned minus static lies, in [-1, 1], with 95 % at all times at
    /// once; `None` before the first comparison.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let radius = ((2.0 / MISS).ln() + self.spread) / self.bets;
        let centre = self.bet_sum / self.bets;
        let difference = |x: f64| (2.0 * x - 1.0).clamp(-1.0, 1.0);
        (self.count > 0).then(|| [difference(centre - radius), difference(centre + radius)])
    }

    fn observe(&mut self, fixed: f64, learned: f64) {
        let x = (learned - fixed + 1.0) / 2.0;
        let t = self.count as f64;
        let mean_before = (0.5 + self.sum) / (t + 1.0);
        let variance_before = (0.25 + self.squares) / (t + 1.0);
        let bet = bet(variance_before, t + 1.0);
        self.spread += 4.0 * (x - mean_before).powi(2) * psi(bet);
        self.bets += bet;
        self.bet_sum += bet * x;
        self.sum += x;
        self.count += 1;
        let mean = (0.5 + self.sum) / (t + 2.0);
        self.squares += (x - mean).powi(2);
        self.fixed += fixed;
        self.learned += learned;
    }
}

/// `min(sqrt(2 ln(2 / miss) / (variance t ln(1 + t))), most)`.
fn bet(variance: f64, t: f64) -> f64 {
    (2.0 * (2.0 / MISS).ln() / (variance * t * (1.0 + t).ln())).sqrt().min(MOST_BET)
}

/// `(-ln(1 - bet) - bet) / 4`.
fn psi(bet: f64) -> f64 {
    (-(1.0 - bet).ln() - bet) / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Seeded};

    #[test]
    fn one_comparison_by_hand() {
        // x = 0.75, bet = 0.5, psi = (ln 2 - 0.5) / 4 = 0.0482868; spread = 4 * 0.0625 * psi = 0.0120717;
        // radius = (ln 40 + 0.0120717) / 0.5 = 7.4019: nothing is known yet.
        let mut gate = Gate::default();
        assert_eq!(gate.comparison().interval(), None);
        gate.observe(0.5, 1.0);
        let now = gate.comparison();
        assert!((now.spread - 0.012_071_7).abs() < 1e-6 && (now.bets - 0.5).abs() < 1e-12);
        assert_eq!(now.interval(), Some([-1.0, 1.0]));
        assert_eq!(now.means(), Some([0.5, 1.0]));
    }

    /// Differences of -1, 0 or 1.
    fn difference(random: &mut Seeded, better: f64, worse: f64) -> [f64; 2] {
        match random.uniform() {
            u if u < better => [0.0, 1.0],
            u if u < better + worse => [1.0, 0.0],
            _ => [0.5, 0.5],
        }
    }

    #[test]
    fn an_order_that_is_no_worse_is_hardly_ever_paused() {
        let paused = |seed: u64| {
            let mut random = Seeded::new(seed);
            let mut gate = Gate::default();
            (0..STRETCH).any(|_| {
                let [fixed, learned] = difference(&mut random, 0.15, 0.15);
                gate.observe(fixed, learned);
                gate.is_paused()
            })
        };
        let wrong = (0..400).filter(|seed| paused(*seed)).count();
        assert!(wrong <= 400 / 40 + 6, "{wrong} of 400: each side has 2.5 %");
    }

    #[test]
    fn a_worse_order_is_paused_and_ranks_again_when_it_is_better() {
        let mut random = Seeded::new(7);
        let mut gate = Gate::default();
        let mut until = |gate: &mut Gate, better: f64, worse: f64, paused: bool| {
            (1..2_000).find(|_| {
                let [fixed, learned] = difference(&mut random, better, worse);
                gate.observe(fixed, learned);
                gate.is_paused() == paused
            })
        };
        let harm = until(&mut gate, 0.1, 0.4, true).unwrap();
        let good = until(&mut gate, 0.4, 0.1, false).unwrap();
        assert!(harm < 120 && good < 120, "{harm}, {good}");
    }

    #[test]
    fn numbers_bring_it_back() {
        let mut gate = Gate { paused: true, ..Gate::default() };
        (0..9).for_each(|i| gate.observe(0.5, f64::from(i % 3) / 2.0));
        assert_eq!(Gate::from_numbers(gate.to_numbers()), gate);
    }
}
