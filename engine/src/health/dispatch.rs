//! Whether tasks are handed over, where they are to be.

use super::report::{fine, rounded};
use super::{Category, Check, Status};
use crate::wake::Dispatch;

const NAME: &str = "task_dispatch";

pub(super) fn check(how: &Dispatch) -> Check {
    let check = match how {
        Dispatch::Poll => fine(
            NAME,
            "workers look for tasks when hints or the time tell them",
        ),
        Dispatch::Queue => fine(NAME, "tasks are handed over to those who wait for them"),
        Dispatch::Lost(age) => Check {
            status: Status::Warning,
            remedy: "see that the Redis runs that REDIS_HOST or COORD_REDIS_URL names; nothing is lost meanwhile",
            count: 1,
            age: *age,
            ..fine(
                NAME,
                format!(
                    "tasks are not handed over for {:?}: workers look for them as in the mode poll",
                    rounded(*age)
                ),
            )
        },
    };
    Check {
        category: Category::Acceleration,
        ..check
    }
}
