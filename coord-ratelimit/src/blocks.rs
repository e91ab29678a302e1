//! Permits drawn in blocks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::{Error, Key, Result};
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

use crate::decision::{By, Decision, Standing};
use crate::limiter::Limiter;
use crate::subject::Subject;

/// Subjects with a stock; from so many on, those whose stock is empty or old are forgotten.
const MAX_STOCKS: usize = 10_000;

/// A [`Limiter`] that draws a block of permits of a subject at a time and hands them out from
/// memory: one round trip a block.
///
/// # Guarantees
/// Every permit that is handed out was taken in Redis before. So in any span of time at most
/// `block - 1` permits a process and subject pass above what the limits let pass in it: those in
/// stock at its start. And at most so many that were taken are not used: a stock that is older than
/// the shortest period of the limits is thrown away, and so is that of a process that ends.
#[derive(Clone)]
pub struct Blocks(Arc<Inner>);

struct Inner {
    limiter: Limiter,
    block: u32,
    life: Duration,
    stocks: Mutex<HashMap<Vec<Key>, Arc<Turn<Stock>>>>,
}

/// Permits of one subject that were taken and not handed out.
struct Stock {
    left: u32,
    until: Instant,
    standing: Option<Standing>,
}

impl Blocks {
    pub(crate) fn new(limiter: Limiter, block: u32) -> Result<Self> {
        let capacity = limiter.capacity();
        if !(2..=capacity).contains(&block) {
            return Err(Error::invalid(format!(
                "a block of {block} permits is not in 2 to {capacity}, which fit at once"
            )));
        }
        let periods = limiter.limits().iter().map(|limit| limit.quota().period());
        let life = periods.min().unwrap_or_default();
        Ok(Self(Arc::new(Inner {
            limiter,
            block,
            life,
            stocks: Mutex::default(),
        })))
    }

    /// Takes `permits` of `subject` if they are there: of its stock, or else of a block that is
    /// drawn for it. Where a block is not there, exactly these permits are asked for, so the last
    /// ones are handed out too.
    ///
    /// Callers of one subject wait for one another while a block is drawn. `remaining` counts the
    /// stock and what was left when the block was drawn.
    ///
    /// # Errors
    /// As [`Limiter::try_acquire`].
    ///
    /// # Cancel safety
    /// A dropped call may have drawn a block that nobody uses.
    pub async fn try_acquire(&self, subject: &Subject, permits: u32) -> Result<Decision> {
        let limiter = &self.0.limiter;
        let keys = limiter.keys(subject, permits)?;
        let stock = self.stock(&keys);
        let mut stock = stock.lock().await;
        if Instant::now() >= stock.until {
            stock.left = 0;
        }
        if let (true, Some(drawn)) = (stock.left >= permits, &stock.standing) {
            let standing = Standing {
                by: By::Block,
                remaining: drawn.remaining.saturating_add(stock.left - permits),
                ..drawn.clone()
            };
            stock.left -= permits;
            return Ok(Decision::Allowed(standing).counted());
        }
        let decision = self.draw(&mut stock, &keys, permits).await?;
        Ok(decision.counted())
    }

    async fn draw(&self, stock: &mut Stock, keys: &[Key], permits: u32) -> Result<Decision> {
        let limiter = &self.0.limiter;
        let patience = limiter.deadline();
        let sent_at = Instant::now();
        // What is in stock counts, so that no stock is larger than a block less one.
        let short = permits - stock.left;
        let block = if limiter.is_degraded(keys) {
            short
        } else {
            short.max(self.0.block)
        };
        let mut decision = limiter.decide(keys, block, patience).await?;
        let mut drawn = block;
        if !decision.is_allowed() && short < block {
            decision = limiter.decide(keys, short, patience).await?;
            drawn = short;
        }
        // What was decided without Redis is not taken, so there is nothing to put in stock.
        if let (Decision::Allowed(standing), false) = (&decision, decision.is_degraded()) {
            stock.left = stock.left + drawn - permits;
            stock.until = sent_at + self.0.life;
            stock.standing = Some(standing.clone());
        }
        Ok(decision)
    }

    fn stock(&self, keys: &[Key]) -> Arc<Turn<Stock>> {
        let mut stocks = self.0.stocks.lock().unwrap_or_else(PoisonError::into_inner);
        if stocks.len() >= MAX_STOCKS {
            let now = Instant::now();
            stocks.retain(|_, stock| {
                stock
                    .try_lock()
                    .map_or(true, |stock| stock.left > 0 && now < stock.until)
            });
        }
        let empty = || {
            Arc::new(Turn::new(Stock {
                left: 0,
                until: Instant::now(),
                standing: None,
            }))
        };
        Arc::clone(stocks.entry(keys.to_vec()).or_insert_with(empty))
    }
}
