//! The promises of the port, each a test of the name that the port gives it, on every dialect.

mod alike;
mod archives;
mod builds;
mod callers;
mod claims;
mod clients;
mod crowds;
mod deaths;
mod declarations;
mod definitions;
mod deploys;
mod dialect;
mod doctors;
mod due_schedules;
mod ends;
mod environment;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod faults;
mod fences;
mod fleet;
mod fleets;
mod handed;
mod health;
mod hints;
mod hostile;
mod mends;
mod messages;
mod namespaces;
mod operators;
mod pages;
#[cfg(feature = "postgres")]
mod pooled;
mod processes;
mod quotas;
mod races;
mod reads;
mod refusals;
mod retention;
mod schedulers;
mod schedules;
mod searches;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server;
mod shares;
mod stage;
mod starts;
mod storm;
mod visits;
#[cfg(feature = "postgres")]
mod wakes;
mod writes;

use dialect::Database;
use stage::Stage;

macro_rules! on_every_dialect {
    ($($module:ident { $($promise:ident)+ })+) => {
        on_every_dialect! { @ "sqlite" sqlite_file $($module { $($promise)+ })+ }
        on_every_dialect! { @ "sqlite" sqlite_memory $($module { $($promise)+ })+ }
        on_every_dialect! { @ "testing" memory $($module { $($promise)+ })+ }
        on_every_server! { $($module { $($promise)+ })+ }
    };
    (@ $feature:literal $dialect:ident $($module:ident { $($promise:ident)+ })+) => {
        #[cfg(feature = $feature)]
        mod $dialect {
            use super::{Database, Stage};
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    if let Some(database) = Database::$dialect().await {
                        super::$module::$promise(Stage::new(database).await).await;
                    }
                }
            )+)+
        }
    };
}

macro_rules! on_every_server {
    ($($module:ident { $($promise:ident)+ })+) => {
        on_every_dialect! { @ "postgres" postgres $($module { $($promise)+ })+ }
        on_every_dialect! { @ "mysql" mysql $($module { $($promise)+ })+ }
    };
}

on_every_dialect! {
    visits {
        a_visit_needs_a_schema_and_brings_none
        a_visitor_commands_and_does_nothing_for_all
    }
    alike {
        a_write_does_the_same_alone_and_among_others
    }
    writes {
        a_failed_call_leaves_nothing
        a_lost_write_does_not_take_its_batch_along
        a_value_that_the_database_refuses_is_invalid
        an_append_that_is_repeated_adds_nothing
        a_run_that_is_set_aside_is_resumed
        a_failed_attempt_is_kept_and_comes_again
    }
    fences {
        an_expired_lease_writes_nothing
        a_late_owner_writes_nothing_after_a_takeover
        an_epoch_never_comes_twice
        a_lease_is_whole_after_a_lock_wait
        a_fence_is_judged_after_a_lock_wait
        an_activity_and_its_run_are_committed_together
        activities_end_together_with_their_run_or_not_at_all
        a_turn_on_top_of_news_is_stale
    }
    messages {
        news_for_a_run_with_a_task_adds_none
        news_during_a_turn_is_never_forgotten
        places_in_an_inbox_are_dense_whoever_writes
        a_continued_run_loses_no_message
        a_message_beyond_what_may_wait_is_refused
        a_repeated_command_is_carried_out_once
    }
    ends {
        a_closed_run_changes_no_more
        a_close_reaches_parent_and_children
        a_child_whose_id_is_taken_is_answered_to_its_parent
        a_terminated_run_ends_after_what_was_appended
    }
    starts {
        an_id_is_started_once
        a_name_of_a_lost_turn_is_free_again
        a_repeated_start_created_its_run
        a_start_that_is_requested_again_is_answered_as_the_first_time
    }
    builds {
        a_claim_leaves_what_its_builds_cannot_go_on_with
        a_mark_goes_with_a_run_to_its_tasks
        a_worker_is_seen_as_long_as_its_process_lives
        what_waits_is_counted_with_what_bounds_it
        one_build_is_promoted_and_not_to_end
    }
    callers {
        a_write_in_the_callers_transaction_happens_when_it_commits
        a_transaction_of_the_caller_that_is_rolled_back_leaves_nothing
        what_fails_in_the_callers_transaction_leaves_nothing_in_it
        two_callers_who_start_one_id_get_one_run
        a_transaction_of_another_kind_of_database_is_refused
    }
    clients {
        a_batch_of_starts_is_answered_one_by_one
        a_command_by_name_is_answered_by_what_became_of_it
        a_batch_that_is_too_large_starts_nothing
        what_is_started_with_the_callers_own_rows_is_worked_on_after_the_commit
        a_signal_in_the_callers_transaction_is_received_once
        a_command_with_a_request_is_carried_out_once
        a_url_and_a_pool_lead_to_the_same_database
        a_workflow_says_what_it_is_found_by
        an_exported_run_is_imported_under_its_ids_and_only_once
        an_open_run_that_is_imported_waits_until_it_is_resumed
    }
    health {
        a_census_counts_what_stands_with_its_age
        a_run_says_why_it_does_not_move
        a_run_says_that_the_process_that_has_its_task_is_silent
        a_run_that_went_wrong_says_what_to_do
        a_run_that_lost_its_rows_says_which
        a_run_that_was_brought_in_or_took_processes_down_waits_to_be_resumed
        a_queue_that_nobody_serves_is_told_from_a_slow_one
        an_engine_says_how_it_is
    }
    refusals {
        a_task_that_nobody_takes_says_why_everywhere
    }
    operators {
        a_survey_counts_runs_and_shows_processes
        a_snapshot_shows_what_a_fleet_does
    }
    archives {
        a_history_leaves_when_all_of_it_is_kept_elsewhere
        closed_runs_come_in_pages_and_those_without_history_are_passed_over
        a_run_without_its_history_is_removed_when_its_time_has_come
        an_archived_run_says_where_its_history_is_and_keeps_its_result
        what_an_archive_does_not_take_stays
        two_archives_at_once_hand_each_history_over_and_lose_none
    }
    doctors {
        a_database_as_it_should_be_has_no_error
        an_index_that_is_gone_is_missed_and_shows_in_the_plan
        a_schema_of_another_version_is_found
        a_transaction_that_is_under_way_for_long_is_found
        a_database_that_may_lose_what_it_confirms_is_found
        a_reader_that_holds_up_the_log_is_found
    }
    environment {
        an_engine_is_what_its_environment_says
    }
    hostile {
        a_call_that_is_dropped_anywhere_happened_whole_or_not_at_all
        a_failure_is_passed_on_whatever_it_says
        a_turn_that_panics_says_so_whatever_it_says
        many_of_the_largest_values_go_in_one_turn
        many_of_the_largest_values_are_sent_at_once
        a_result_that_the_database_refuses_fails_its_attempt_once
    }
    storm {
        every_run_ends_once_whatever_becomes_of_its_processes
    }
    pages {
        the_statements_of_the_pages_for_operators_work
    }
    claims {
        claims_go_by_priority_and_age
        two_claims_never_share_a_task
        a_claim_takes_no_more_than_its_limit
        a_claim_takes_of_each_kind_what_it_wants
        a_claim_takes_only_what_it_knows
        a_claim_passes_locked_rows_by
        an_empty_claim_says_when_to_come_again
        a_claimed_activity_comes_with_what_scheduled_it
        a_late_renewal_revives_nothing
        a_heartbeat_carries_progress_to_the_next_attempt
        a_task_that_is_taken_back_too_often_is_set_aside
        a_task_of_a_slow_owner_that_lives_is_never_poison
        an_overdue_activity_is_ended_by_anybody
        a_task_put_back_untouched_burns_no_attempt
    }
    races {
        a_claim_finds_nothing_only_when_there_is_nothing_left
        a_hot_queue_starves_no_cold_one
        all_activities_at_once_may_start_workflows_and_wait_for_them
        signals_that_meet_their_waits_all_arrive_in_order
    }
    quotas {
        a_quota_of_leases_holds_over_all_who_claim
        a_quota_of_a_minute_holds_over_all_who_claim
        a_quota_of_a_namespace_counts_all_its_queues
        bounded_processes_run_no_more_than_their_bound
    }
    shares {
        much_of_one_key_holds_up_no_other
        a_weight_is_a_share_whoever_claims
        tasks_without_a_key_share_as_one
        a_priority_goes_before_all_shares
        a_share_goes_with_a_run_to_all_its_tasks
        claims_of_shares_at_once_take_each_task_once
        a_queue_of_shares_says_when_to_come_again
    }
    crowds {
        many_writers_and_claimers_see_no_deadlock
    }
    reads {
        an_event_is_read_as_it_was_written
        a_list_goes_on_where_its_page_ended
        a_description_says_why_a_run_stands
        a_later_schema_disturbs_nobody
    }
    retention {
        a_closed_run_goes_with_all_that_belongs_to_it
        an_open_run_and_a_young_one_stay
        a_portion_takes_no_more_than_was_said
        a_child_outlives_the_parent_that_is_removed
        a_namespace_has_its_own_retention
        what_is_past_its_retention_goes_by_hand
    }
    namespaces {
        a_node_touches_nothing_of_another_namespace
        a_namespace_is_registered_once
        what_a_namespace_was_registered_with_changes_as_far_as_it_is_said
    }
    declarations {
        a_search_attribute_is_declared_once_until_it_is_withdrawn
        a_namespace_declares_so_many_search_attributes_and_no_more
    }
    searches {
        runs_are_found_by_each_kind_of_attribute
        conditions_of_a_search_hold_together
        a_turn_changes_what_its_run_is_found_by
        a_lost_turn_changes_no_attributes
    }
    fleet {
        a_role_has_one_holder_at_a_time
        a_term_number_grows_after_every_gap
        the_dead_are_buried_only_under_a_term
        what_the_dead_had_is_taken_back
        an_incarnation_that_is_alone_buries_all_others
        a_node_that_is_exclusive_has_the_process_that_came_last
        the_roles_are_shown_with_the_ends_of_their_terms
        those_who_ended_are_forgotten_after_a_while
    }
    mends {
        much_of_one_queue_keeps_no_other_waiting
        what_is_left_of_many_is_taken_back_to_the_last_one
        a_run_that_lost_its_task_goes_on
        a_run_that_lacks_nothing_is_left_alone
        an_activity_that_lost_its_task_goes_on
        a_run_whose_activities_lost_their_tasks_ends
        a_run_whose_activity_took_processes_down_is_resumed
        what_ends_while_somebody_looks_is_not_taken_back
    }
    handed {
        a_claim_of_certain_tasks_takes_those_alone
        the_same_is_done_whether_tasks_are_handed_over_or_looked_for
        what_lies_about_tasks_costs_time_and_nothing_else
    }
    hints {
        a_batch_says_what_it_leaves_to_be_claimed
        hints_are_read_in_their_order_by_all
        old_hints_go
    }
    schedules {
        a_schedule_reads_as_it_was_written
        a_schedule_is_created_once
        an_occurrence_fires_once_whoever_decides_it
        an_occurrence_that_has_fired_starts_nothing_more
        an_open_workflow_is_known_to_its_schedule
        what_a_schedule_ends_ends_with_its_write_or_not_at_all
        the_latest_fires_are_kept
        a_deleted_schedule_leaves_nothing
    }
    due_schedules {
        a_schedule_is_due_at_its_instant
        due_schedules_go_on_where_their_page_ended
        a_list_of_schedules_goes_on_where_its_page_ended
        a_schedule_that_does_not_read_stops_no_other
    }
    schedulers {
        every_occurrence_fires_once_though_schedulers_die
    }
    processes {
        many_processes_migrate_at_once
        many_processes_claim_and_commit_side_by_side
        processes_of_their_own_share_the_work
        a_process_that_is_alone_takes_over_at_once
    }
    definitions {
        a_claim_leaves_runs_that_began_with_other_code
        a_run_stays_with_the_definition_with_which_it_began
    }
    deploys {
        a_rolling_deploy_runs_nothing_on_a_build_that_does_not_support_it
    }
    deaths {
        what_a_killed_process_had_goes_on_long_before_its_lease_ends
        the_only_step_of_a_killed_process_goes_on
        what_the_killed_leader_had_goes_on_long_before_its_lease_ends
        a_process_that_was_paused_for_longer_than_its_life_changes_nothing
        a_process_that_stops_is_not_waited_for
        a_process_that_leaves_gives_its_roles_up
    }
    fleets {
        an_exclusive_node_that_is_restarted_goes_on_at_once
        nodes_that_are_replaced_in_turn_under_load_lose_nothing
        only_what_a_killed_node_had_is_done_again
        an_outage_shorter_than_a_life_costs_nobody_his_life
        a_database_that_goes_amid_recovery_loses_nothing
        clocks_that_differ_take_nothing_early_and_leave_nothing_behind
        five_processes_have_one_leader
        a_service_that_stops_in_time_leaves_nothing_leased
    }
}

#[cfg(feature = "postgres")]
mod behind_a_pooler {
    use super::{Database, Stage, pooled};

    on_every_dialect! { @ "postgres" postgres
        pooled {
            a_named_statement_that_a_pooler_loses_says_what_to_do
            calls_at_once_keep_their_sessions
        }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod broken {
    use super::{Database, Stage, faults};

    macro_rules! on {
        ($feature:literal $dialect:ident $($promise:ident)+) => {
            #[cfg(feature = $feature)]
            mod $dialect {
                use super::{Database, Stage, faults};
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $promise() {
                        if let Some(database) = Database::$dialect().await {
                            faults::$promise(Stage::new(database).await).await;
                        }
                    }
                )+
            }
        };
    }

    macro_rules! on_both {
        ($($promise:ident)+) => {
            on! { "postgres" postgres $($promise)+ }
            on! { "mysql" mysql $($promise)+ }
        };
    }

    on_both! {
        a_commit_without_an_answer_is_a_timeout
        a_connection_that_breaks_before_the_commit_leaves_nothing
        a_server_that_is_not_there_is_unavailable
        a_start_whose_answer_was_lost_is_answered_all_the_same
        a_signal_whose_answer_was_lost_is_sent_once
    }

    /// Where a plain batch is one statement, and that its own transaction.
    mod plain {
        use super::*;

        on! { "postgres" postgres a_statement_without_an_answer_is_a_timeout }
    }
}

/// Not a test by itself: what [`processes::processes_of_their_own_share_the_work`] runs as another
/// process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_another_test() {
    processes::child().await;
}

/// Not a test by itself: a worker of
/// [`storm::every_run_ends_once_whatever_becomes_of_its_processes`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_another_test() {
    storm::worker().await;
}

/// Not a test by itself: what [`quotas`] runs as other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_process_of_another_test() {
    quotas::node().await;
}

/// Not a test by itself: what [`deploys`] runs as other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_of_another_test() {
    deploys::node().await;
}

/// Not a test by itself: what the tests of [`deaths`] run as other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_test() {
    deaths::node().await;
}

/// A service may end its runtime before it lets go of its store.
#[cfg(feature = "postgres")]
#[test]
fn a_store_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stage = runtime.block_on(async {
        let stage = Stage::new(Database::postgres().await?).await;
        stage.start("w").await;
        Some(stage)
    });
    // Without a server there is nothing to see.
    let Some(Stage {
        store,
        other,
        database,
        ..
    }) = stage
    else {
        return;
    };
    let cleaner = tokio::runtime::Runtime::new().expect("a runtime");

    drop(runtime);
    drop((store, other));

    cleaner.block_on(async { drop(database) });
}
