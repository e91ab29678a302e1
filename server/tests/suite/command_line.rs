//! The program `coord`, as people and scripts call it: on every database, and on Redis.

mod dev;
mod documents;
mod grants;
mod looks;
mod operating;
mod operators;
mod refusals;
mod runs;
mod schedules;
mod serving;
pub(crate) mod stage;

/// Each test on a database of its own of every kind.
macro_rules! on_every_database {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::command_line::stage::Database::sqlite()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(database) = crate::command_line::stage::Database::postgres().await {
                    super::$test(database).await;
                }
            })+
        }

        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(database) = crate::command_line::stage::Database::mysql().await {
                    super::$test(database).await;
                }
            })+
        }
    };
}
pub(crate) use on_every_database;
