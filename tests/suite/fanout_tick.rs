//! The cron tick.
