//! How much a difference between two groups of runs means.
//!
//! Runs are few where they are dear, so nothing here assumes that there are many: shares have
//! Wilson's score interval and Fisher's exact test, numbers the rank-sum test of Mann and Whitney,
//! which asks nothing of their distribution.

/// Some of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// How many.
    pub hits: u64,
    /// Of how many.
    pub of: u64,
}

impl Share {
    /// As a number from 0 to 1.
    pub fn value(self) -> f64 {
        self.hits as f64 / self.of.max(1) as f64
    }

    /// Where the true share lies with a confidence of 95 % (Wilson's score interval).
    pub fn interval(self) -> (f64, f64) {
        const Z: f64 = 1.96;
        let (n, p) = (self.of.max(1) as f64, self.value());
        let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let (centre, scale) = (p + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
        let low = ((centre - spread) / scale).max(0.0);
        (low, ((centre + spread) / scale).min(1.0))
    }

    /// The chance that so many more of this group are hits than of the other, if all are equally
    /// likely to be (Fisher's exact test, one-sided).
    pub fn more_by_chance(self, other: Share) -> f64 {
        let (with, all) = (self.hits + other.hits, self.of + other.of);
        let last = with.min(self.of);
        let log_choose =
            |n: u64, k: u64| log_factorial(n) - log_factorial(k) - log_factorial(n - k);
        let total = log_choose(all, self.of);
        let chances = (self.hits..=last)
            .filter(|hits| with - hits <= other.of)
            .map(|hits| {
                (log_choose(with, hits) + log_choose(all - with, self.of - hits) - total).exp()
            });
        chances.sum::<f64>().min(1.0)
    }

    /// The chance of so great a difference in either direction.
    pub fn differs_by_chance(self, other: Share) -> f64 {
        let one_sided = self.more_by_chance(other).min(other.more_by_chance(self));
        (2.0 * one_sided).min(1.0)
    }
}

/// Stirling's series; exact enough for a chance.
fn log_factorial(n: u64) -> f64 {
    if n < 16 {
        return (2..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let n = n as f64;
    let half = 0.5 * (2.0 * std::f64::consts::PI * n).ln();
    n * n.ln() - n + half + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
}

/// The mean, and how far the true one may be from it with a confidence of 95 %.
pub fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (n - 1.0).max(1.0)).sqrt();
    (mean, 1.96 * deviation / n.sqrt())
}

/// The chance that the numbers of one group are so much greater or smaller than those of the other,
/// if both come from the same source (Mann and Whitney's test, by its normal approximation).
pub fn ranks_differ_by_chance(one: &[f64], other: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = one.iter().map(|value| (*value, true)).collect();
    all.extend(other.iter().map(|value| (*value, false)));
    all.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (n, m) = (one.len() as f64, other.len() as f64);
    let count = n + m;
    let (mut ranks, mut ties) = (0.0, 0.0);
    let mut start = 0;
    while start < all.len() {
        let same = all[start..].partition_point(|(value, _)| *value <= all[start].0);
        // Equal numbers share the mean of their ranks.
        let rank = start as f64 + (same as f64 + 1.0) / 2.0;
        let ours = all[start..start + same]
            .iter()
            .filter(|(_, is_one)| *is_one);
        ranks += rank * ours.count() as f64;
        ties += (same as f64).powi(3) - same as f64;
        start += same;
    }
    let u = ranks - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * (count + 1.0 - ties / (count * (count - 1.0)).max(1.0));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    two_sided(distance / variance.sqrt())
}

/// The chance that a normal variable lies this many deviations from its mean, or farther:
/// Abramowitz and Stegun's 7.1.26, whose error is below 1.5e-7.
fn two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [
        0.254_829_592,
        -0.284_496_736,
        1.421_413_741,
        -1.453_152_027,
        1.061_405_429,
    ];
    let sum = series
        .iter()
        .rev()
        .fold(0.0, |sum, factor| (sum + factor) * t);
    (sum * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(hits: u64, of: u64) -> Share {
        Share { hits, of }
    }

    #[test]
    fn the_exact_test_is_exact() {
        // Fisher's lady: all of four cups right.
        let lady = |hits| share(hits, 4).more_by_chance(share(4 - hits, 4));
        assert!((lady(4) - 1.0 / 70.0).abs() < 1e-12);
        assert!((lady(3) - 17.0 / 70.0).abs() < 1e-12);
        assert!((share(0, 10).more_by_chance(share(5, 10)) - 1.0).abs() < 1e-9);
        let many = share(600, 1000).more_by_chance(share(500, 1000));
        assert!((1e-6..1e-5).contains(&many), "{many}");
        assert!((share(4, 4).differs_by_chance(share(0, 4)) - 2.0 / 70.0).abs() < 1e-12);
        assert!((share(3, 6).differs_by_chance(share(3, 6)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_interval_is_wilsons() {
        let (low, high) = share(0, 18).interval();
        assert!(low == 0.0 && (0.17..0.18).contains(&high), "{high}");
        let (low, high) = share(6, 6).interval();
        assert!((0.60..0.62).contains(&low) && high == 1.0, "{low}");
    }

    #[test]
    fn ranks_tell_groups_apart() {
        let low: Vec<f64> = (0..20).map(f64::from).collect();
        let high: Vec<f64> = (15..35).map(f64::from).collect();
        assert!(ranks_differ_by_chance(&low, &high) < 1e-5);
        assert!(ranks_differ_by_chance(&low, &low) > 0.9);
        assert!(ranks_differ_by_chance(&[1.0; 9], &[1.0; 30]) > 0.9);
        // Known: z = 1.96 is five in a hundred.
        assert!((two_sided(1.959_964) - 0.05).abs() < 1e-6);
        assert!((two_sided(0.0) - 1.0).abs() < 1e-6);
    }
}
