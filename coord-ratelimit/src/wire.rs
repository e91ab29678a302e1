//! What goes over the wire: the scripts with their arguments and replies.
//!
//! Public for tests and benchmarks that run the very scripts by another client.

use coord_core::{Error, Key, Result};
use coord_redis::{Command, Reply, Script};

use crate::fixed::{Fixed, Used};
use crate::gcra::Ahead;
use crate::limit::Limit;
use crate::rule::{Level, Rule};
use crate::sliding::{Counts, Sliding};

macro_rules! one {
    ($file:literal) => {
        concat!(
            include_str!("lua/now.lua"),
            include_str!("lua/one.lua"),
            include_str!($file),
            include_str!("lua/one_write.lua")
        )
    };
}

macro_rules! several {
    ($end:literal) => {
        concat!(
            include_str!("lua/now.lua"),
            include_str!("lua/several.lua"),
            "if algorithm == 'gcra' then\n",
            include_str!("lua/gcra.lua"),
            "elseif algorithm == 'sliding' then\n",
            include_str!("lua/sliding.lua"),
            "else\n",
            include_str!("lua/fixed.lua"),
            "end\n",
            include_str!($end)
        )
    };
}

const GCRA_SOURCE: &str = one!("lua/gcra.lua");
const SLIDING_SOURCE: &str = one!("lua/sliding.lua");
const FIXED_SOURCE: &str = one!("lua/fixed.lua");

static GCRA: Script = Script::new("ratelimit.gcra", GCRA_SOURCE);
static SLIDING: Script = Script::new("ratelimit.sliding", SLIDING_SOURCE);
static FIXED: Script = Script::new("ratelimit.fixed", FIXED_SOURCE);
static SEVERAL: Script = Script::new("ratelimit.several", several!("lua/several_write.lua"));
static PEEK: Script = Script::new("ratelimit.peek", several!("lua/several_read.lua"));

/// Arguments of each limit where a script takes several, its algorithm among them.
const STRIDE: usize = 6;

/// The script that takes permits of one limit with this rule.
pub fn source(rule: &Rule) -> &'static str {
    match rule {
        Rule::Gcra(_) => GCRA_SOURCE,
        Rule::Sliding(_) => SLIDING_SOURCE,
        Rule::Fixed(_) => FIXED_SOURCE,
    }
}

/// Its arguments for so many permits; negative ones give back.
pub fn arguments(rule: &Rule, permits: i64) -> impl Iterator<Item = i64> + use<> {
    let (arguments, count) = padded(rule, permits);
    arguments.into_iter().take(count)
}

/// The arguments and how many they are, with zeros behind them.
fn padded(rule: &Rule, permits: i64) -> ([i64; STRIDE - 1], usize) {
    match rule {
        Rule::Gcra(gcra) => {
            let ((cost_us, cost_part), capacity) = (gcra.cost(permits), gcra.capacity());
            // All are far below 2^63; see the bounds in `gcra`.
            let arguments = [
                cost_us,
                cost_part.cast_signed(),
                capacity.us.cast_signed(),
                capacity.part.cast_signed(),
                gcra.parts().cast_signed(),
            ];
            (arguments, 5)
        }
        Rule::Sliding(Sliding { quota, window_us }) | Rule::Fixed(Fixed { quota, window_us }) => {
            let arguments = [permits, (*quota).into(), window_us.cast_signed(), 0, 0];
            (arguments, 3)
        }
    }
}

/// What a script answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the permits were taken.
    pub taken: bool,
    /// The server's time, in microseconds since the epoch.
    pub now_us: u64,
    /// The level of each limit as it was found.
    pub before: Vec<Level>,
}

/// Takes `permits` of all `limits` or of none; gives them back when they are negative. Sent once.
pub(crate) fn take(limits: &[Limit], keys: &[Key], permits: i64) -> Command {
    let ([limit], [key]) = (limits, keys) else {
        return many(&SEVERAL, limits, keys, permits);
    };
    let script = match limit.rule() {
        Rule::Gcra(_) => &GCRA,
        Rule::Sliding(_) => &SLIDING,
        Rule::Fixed(_) => &FIXED,
    };
    arguments(limit.rule(), permits).fold(script.call(&[key]), Command::arg)
}

/// Only looks.
pub(crate) fn peek(limits: &[Limit], keys: &[Key]) -> Command {
    many(&PEEK, limits, keys, 0).idempotent()
}

fn many(script: &'static Script, limits: &[Limit], keys: &[Key], permits: i64) -> Command {
    let keys: Vec<_> = keys.iter().collect();
    let mut command = script.call(&keys);
    for limit in limits {
        command = command.arg(match limit.rule() {
            Rule::Gcra(_) => "gcra",
            Rule::Sliding(_) => "sliding",
            Rule::Fixed(_) => "fixed",
        });
        let (arguments, _) = padded(limit.rule(), permits);
        command = arguments.into_iter().fold(command, Command::arg);
    }
    command
}

/// Reads what a script answered on limits with these rules.
///
/// # Errors
/// `Corrupt` for anything else.
pub(crate) fn answer(reply: Reply, limits: &[Limit]) -> Result<Answer> {
    let mut numbers = reply.list()?.into_iter().map(|item| {
        u64::try_from(item.int()?).map_err(|_| Error::corrupt("a limiter's reply is negative"))
    });
    let mut next = || {
        let number = numbers.next();
        number.unwrap_or_else(|| Err(Error::corrupt("a limiter's reply is too short")))
    };
    let (taken, now_us) = (next()? == 1, next()?);
    let mut before = Vec::with_capacity(limits.len());
    for limit in limits {
        before.push(level(limit.rule(), [next()?, next()?, next()?]));
    }
    Ok(Answer {
        taken,
        now_us,
        before,
    })
}

/// What the three numbers of a level mean under `rule`.
pub fn level(rule: &Rule, [x, y, z]: [u64; 3]) -> Level {
    match rule {
        Rule::Gcra(_) => Level::Gcra(Ahead { us: x, part: y }),
        Rule::Sliding(_) => Level::Sliding(Counts {
            elapsed_us: x,
            previous: y,
            current: z,
        }),
        Rule::Fixed(_) => Level::Fixed(Used {
            elapsed_us: x,
            used: y,
        }),
    }
}
