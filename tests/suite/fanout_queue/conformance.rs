//! What every backend of the queue does, written against the port alone.

use std::time::Duration;

use coord_fanout::Queue;

pub(super) mod consumers;
pub(super) mod groups;
pub(super) mod messages;

/// Nothing that is received here takes so long; backends count visibility in whole seconds.
const VISIBILITY: Duration = Duration::from_secs(2);

/// For what must outlast a machine that is busy with other tests.
const LONG: Duration = Duration::from_mins(1);

/// Whether something is there now.
const NOW: Duration = Duration::ZERO;

/// What a test needs of its queue.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) visibility: Duration,
    pub(super) attempts: u32,
}

const QUICK: Shape = Shape {
    visibility: VISIBILITY,
    attempts: 5,
};

const SLOW: Shape = Shape {
    visibility: LONG,
    attempts: 5,
};

/// Where queues come from; each is empty, and no other test has it.
pub(super) trait Backend {
    type Queue: Queue + Clone;

    async fn queue(&self, shape: Shape) -> Self::Queue;
}

/// Runs every test of this folder on a backend.
macro_rules! suite {
    ($backend:expr) => {
        $crate::fanout_queue::conformance::suite!($backend;
            messages:
                a_message_arrives_as_it_was_enqueued,
                a_duplicate_is_handed_out_once_also_after_its_completion,
                messages_beyond_any_batch_of_a_backend_all_arrive,
                a_body_that_is_too_large_is_invalid_and_nothing_of_its_call_is_enqueued,
                an_empty_queue_answers_when_the_wait_is_over,
                a_receiver_that_waits_gets_what_is_enqueued_meanwhile,
                what_is_not_settled_comes_back_when_its_visibility_ends,
                what_is_extended_does_not_come_back,
                what_was_taken_over_is_lost_to_its_first_consumer,
                what_is_completed_is_gone,
                a_retry_comes_after_its_delay,
                the_last_attempt_ends_among_the_dead_letters,
                a_rejected_message_is_dead_at_once_and_replayed_on_request,
                a_released_message_comes_back_at_once,
                a_message_keeps_its_trace_whatever_becomes_of_it,
                the_depth_tells_where_messages_are;
            groups:
                a_group_is_handed_out_one_by_one_in_order_and_holds_up_no_other,
                a_retry_holds_up_its_group_and_keeps_its_place,
                a_dead_letter_lets_its_group_go_on,
                any_history_loses_nothing_and_keeps_every_group_in_order;
            consumers:
                four_consumers_with_failures_keep_every_group_in_order,
                a_consumer_retries_what_fails_and_what_panics,
                a_consumer_runs_no_more_handlers_at_once_than_it_may,
                a_handler_may_take_longer_than_the_visibility,
                a_consumer_that_is_shut_down_ends_what_it_started,
                a_handler_that_outlasts_the_drain_time_is_dropped_and_its_message_handed_back;
        );
    };
    ($backend:expr; $($part:ident: $($test:ident),+;)+) => {$($(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let backend = coord_tests::need!($backend.await);
            $crate::fanout_queue::conformance::$part::$test(&backend).await;
        }
    )+)+};
}
pub(super) use suite;
