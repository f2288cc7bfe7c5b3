//! Numbers for people, and the statistics of repeated runs.

use serde::Serialize;

/// The spread of a figure over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of these values; zeros if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        match (values.first(), values.last()) {
            (Some(&min), Some(&max)) => {
                let upper = values.len() / 2;
                let lower = (values.len() - 1) / 2;
                Spread { min, median: (values[lower] + values[upper]) / 2.0, max }
            }
            _ => Spread::default(),
        }
    }
}

/// A count with three significant digits: `59.5k`, `1.42M`.
pub fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 999.5e6 => (number / 1e9, "G"),
        n if n >= 999.5e3 => (number / 1e6, "M"),
        n if n >= 999.5 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    match scaled.abs() {
        n if n >= 99.95 || (unit.is_empty() && n.fract() == 0.0) => format!("{scaled:.0}{unit}"),
        n if n >= 9.995 => format!("{scaled:.1}{unit}"),
        _ => format!("{scaled:.2}{unit}"),
    }
}

/// Bytes in binary units: `1.50 GiB`.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = count as f64;
    let mut at = 0;
    while scaled >= 1024.0 && at + 1 < units.len() {
        scaled /= 1024.0;
        at += 1;
    }
    if at == 0 { format!("{count} B") } else { format!("{scaled:.1} {}", units[at]) }
}

/// A duration given in microseconds: `85 us`, `1.20 ms`, `2.5 s`.
pub fn micros(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

/// `a / b`, or `None` where that makes no sense.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0 && a.is_finite()).then(|| a / b)
}

/// Cells of a bar.
const BAR_CELLS: usize = 24;

/// A bar of fixed width.
pub fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_CELLS - full))
}

/// A sparkline of the values, scaled to the largest.
pub fn sparkline(values: &[u64]) -> String {
    let levels = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().max().unwrap_or(0).max(1);
    values
        .iter()
        .map(|&value| if value == 0 { ' ' } else { levels[(value * 7).div_ceil(largest) as usize] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]), Spread { min: 1.0, median: 2.5, max: 4.0 });
        assert_eq!(Spread::of([7.0]).median, 7.0);
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> =
            [0.0, 95.0, 0.714, 12.34, 999.9, 59_500.0, 1_420_000.0].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "95", "0.71", "12.3", "1.00k", "59.5k", "1.42M"]);
        assert_eq!([bytes(512), bytes(1536 << 20)], ["512 B", "1.5 GiB"]);
        assert_eq!([micros(85.0), micros(1200.0), micros(213_000.0)], ["85 us", "1.20 ms", "213 ms"]);
    }

    #[test]
    fn a_bar_is_as_wide_empty_as_full() {
        for share in [-1.0, 0.0, 0.5, 1.0, 7.0] {
            assert_eq!(bar(share).chars().count(), BAR_CELLS);
        }
    }

    #[test]
    fn a_sparkline_shows_gaps() {
        assert_eq!(sparkline(&[7, 0, 1, 14]), "▅ ▂█");
        assert_eq!(sparkline(&[]), "");
    }
}
