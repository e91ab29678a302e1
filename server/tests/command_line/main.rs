//! The program `coord`, as people and scripts call it: on every database, and on Redis.

mod dev;
mod documents;
mod grants;
mod looks;
mod refusals;
mod runs;
mod schedules;
#[path = "../../../engine/tests/conformance/server.rs"]
mod server;
mod stage;

/// Each test on a database of its own of every kind.
macro_rules! on_every_database {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::stage::Database::sqlite()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(database) = crate::stage::Database::postgres().await {
                    super::$test(database).await;
                }
            })+
        }

        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(database) = crate::stage::Database::mysql().await {
                    super::$test(database).await;
                }
            })+
        }
    };
}
pub(crate) use on_every_database;
