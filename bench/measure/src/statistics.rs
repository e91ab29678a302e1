//! Medians and what stands around them.

use serde::Serialize;

/// The rounds of one side.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        Self {
            median: quantile(&mut values, 0.5),
            min: quantile(&mut values, 0.0),
            max: quantile(&mut values, 1.0),
        }
    }
}

/// The value below which the part `at` of `values` lies; 0 where there is none. Sorts them.
pub fn quantile(values: &mut [f64], at: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = (values.len() as f64 * at) as usize;
    let last = values.len().saturating_sub(1);
    values.get(index.min(last)).copied().unwrap_or_default()
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).median
}
