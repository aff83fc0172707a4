//! The best of many approximate scores, with all that may belong among them.

/// Kept beyond what was asked for, when very many scores are close.
const MOST_EXTRA: usize = 8_192;

/// Collects items whose approximate score is at most `margin` below the `want`-th best.
#[derive(Debug)]
pub(crate) struct Shortlist<T> {
    want: usize,
    margin: f32,
    floor: f32,
    limit: usize,
    items: Vec<(f32, T)>,
}

impl<T: Copy + Ord> Shortlist<T> {
    /// For the best `want` (at least one).
    pub(crate) fn new(want: usize, margin: f32) -> Self {
        let want = want.max(1);
        Shortlist { want, margin, floor: f32::NEG_INFINITY, limit: 4 * want + 256, items: Vec::new() }
    }

    /// Scores below this are not kept.
    pub(crate) fn floor(&self) -> f32 {
        self.floor
    }

    /// Adds one item.
    pub(crate) fn push(&mut self, score: f32, item: T) {
        if score >= self.floor {
            self.items.push((score, item));
            if self.items.len() >= self.limit {
                self.prune();
                self.limit = (2 * self.items.len()).max(4 * self.want + 256);
            }
        }
    }

    /// The items, best first; ties by lower item.
    pub(crate) fn finish(mut self) -> Vec<(f32, T)> {
        self.prune();
        self.items.sort_unstable_by(best_first);
        self.items
    }

    fn prune(&mut self) {
        if self.items.len() <= self.want {
            return;
        }
        let (_, (kth, _), _) = self.items.select_nth_unstable_by(self.want - 1, best_first);
        self.floor = *kth - self.margin;
        self.items.retain(|(score, _)| *score >= self.floor);
        let most = self.want + MOST_EXTRA;
        if self.items.len() > most {
            self.items.select_nth_unstable_by(most - 1, best_first);
            self.items.truncate(most);
        }
    }
}

fn best_first<T: Ord>(a: &(f32, T), b: &(f32, T)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_best_and_the_close() {
        let mut list = Shortlist::new(2, 0.15);
        let scores = [0.1, 0.9, 0.5, 0.8, 0.7, 0.64, 0.8];
        (0..2_000).for_each(|i| list.push(0.0, i + 10));
        scores.iter().enumerate().for_each(|(i, score)| list.push(*score, i));
        let kept: Vec<usize> = list.finish().into_iter().map(|(_, i)| i).collect();
        assert_eq!(kept, [1, 3, 6, 4]);
    }
}
