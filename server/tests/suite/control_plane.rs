//! A node by real HTTP: each test has its own, on a database of its own.

mod access;
mod clients;
mod commands;
mod ending;
mod grants;
mod operators;
mod problems;
mod runs;
mod schedules;
mod search_attributes;
mod snapshot;
mod stage;
mod starts;

/// Each test on a SQLite database in memory, and on one of `PostgreSQL`.
macro_rules! on_both_databases {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::control_plane::stage::Place::Memory).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(place) = crate::control_plane::stage::Place::postgres().await {
                    super::$test(place).await;
                }
            })+
        }
    };
}
pub(crate) use on_both_databases;
