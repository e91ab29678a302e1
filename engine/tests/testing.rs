//! How users test their workflows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use coord_engine::flow::{Activity, Context, Either, Signal, Workflow, select};
use coord_engine::model::{Failure, History, Overlap, Retry, ScheduleId, When};
use coord_engine::testing::{TestKit, replay, replay_with};
use coord_engine::worker::Attempt;
use coord_engine::{Codec, Limits};

const ORDER: Workflow<u32, String> = Workflow::new("shop.order");
const CHARGE: Activity<u32, u64> = Activity::new("shop.charge");
const SHIP: Activity<u64, String> = Activity::new("shop.ship");
const REFUND: Activity<u64, ()> = Activity::new("shop.refund");
const PACKED: Signal<String> = Signal::new("packed");
const DAY: Duration = Duration::from_hours(24);

/// Charges, and refunds what is not packed within a week.
async fn order(ctx: Context, cents: u32) -> Result<String, Failure> {
    let receipt = ctx
        .activity(CHARGE, &cents)
        .retry(Retry::exponential(5))
        .await?;
    match select(ctx.signal(PACKED).recv(), ctx.sleep(7 * DAY)).await {
        Either::Left(by) => {
            by?;
            ctx.activity(SHIP, &receipt).await
        }
        Either::Right(slept) => {
            slept?;
            ctx.activity(REFUND, &receipt).await?;
            Ok("refunded".to_owned())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_packed_is_shipped_and_not_refunded() {
    let kit = TestKit::new().await.expect("a kit").workflow(ORDER, order);
    let kit = kit
        .mock(CHARGE, |cents| Ok(u64::from(cents) * 2))
        .mock(SHIP, |receipt| Ok(format!("parcel {receipt}")))
        .mock(REFUND, |_| Ok(()))
        .start();
    let placed = kit.begin(ORDER, "order-17", &21).await.expect("started");
    kit.pass(3 * DAY).await.expect("no trouble");
    assert!(kit.ended(&placed).await.is_err(), "it waits to be packed");

    placed
        .signal(PACKED, &"ann".to_owned())
        .await
        .expect("sent");
    kit.run_ready(10).await.expect("no trouble");

    assert_eq!(
        kit.ended(&placed).await.expect("ended"),
        Ok("parcel 42".to_owned())
    );
    assert_eq!(kit.dispatched(CHARGE), [21]);
    kit.assert_dispatched(SHIP);
    kit.assert_not_dispatched(REFUND);
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_not_packed_is_refunded_after_a_week_and_no_sooner() {
    let kit = TestKit::new().await.expect("a kit").workflow(ORDER, order);
    let kit = kit.mock(CHARGE, |_| Ok(7)).mock(REFUND, |_| Ok(())).start();
    let placed = kit.begin(ORDER, "order-17", &21).await.expect("started");

    kit.pass(6 * DAY + Duration::from_hours(23))
        .await
        .expect("no trouble");
    kit.assert_not_dispatched(REFUND);
    kit.pass(Duration::from_hours(2)).await.expect("no trouble");

    assert_eq!(kit.dispatched(REFUND), [7]);
    assert_eq!(
        kit.ended(&placed).await.expect("ended"),
        Ok("refunded".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn retries_and_deadlines_of_real_activities_happen_in_virtual_time() {
    static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
    async fn charge(_: Attempt, _: u32) -> Result<u64, Failure> {
        ATTEMPTS.fetch_add(1, Ordering::SeqCst);
        Err(Failure::new("the bank is closed"))
    }
    let kit = TestKit::new().await.expect("a kit").workflow(ORDER, order);
    let kit = kit.activity(CHARGE, charge).may_fail().start();
    let placed = kit.begin(ORDER, "order-17", &21).await.expect("started");

    kit.run_ready(10).await.expect("no trouble");
    assert_eq!(ATTEMPTS.load(Ordering::SeqCst), 1);
    kit.pass(DAY).await.expect("no trouble");

    assert_eq!(ATTEMPTS.load(Ordering::SeqCst), 5);
    kit.assert_dispatched_times(CHARGE, 1);
    let failure = kit
        .ended(&placed)
        .await
        .expect("ended")
        .expect_err("failed");
    assert_eq!(failure.message, "the bank is closed");
}

#[tokio::test(start_paused = true)]
async fn a_loop_without_end_is_found_by_the_bound() {
    const SPIN: Workflow<(), ()> = Workflow::new("tests.spin");
    async fn spin(ctx: Context, (): ()) -> Result<(), Failure> {
        loop {
            ctx.activity(CHARGE, &1).await?;
        }
    }
    let kit = TestKit::new().await.expect("a kit").workflow(SPIN, spin);
    let kit = kit.mock(CHARGE, |_| Ok(1)).start();
    kit.begin(SPIN, "a", &()).await.expect("started");

    let error = kit.run_ready(50).await.expect_err("it never ends");

    assert!(error.to_string().contains("more than 50 tasks"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_has_neither_code_nor_a_mock_is_named() {
    let kit = TestKit::new()
        .await
        .expect("a kit")
        .workflow(ORDER, order)
        .start();
    kit.begin(ORDER, "order-17", &21).await.expect("started");

    let error = kit.run_ready(10).await.expect_err("nobody charges");

    assert!(error.to_string().contains("shop.charge"), "{error}");
    kit.assert_dispatched(CHARGE);
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_panics_or_waits_for_something_foreign_fails_the_test() {
    async fn panics(_: Context, _: u32) -> Result<String, Failure> {
        panic!("no luck")
    }
    async fn foreign(_: Context, _: u32) -> Result<String, Failure> {
        tokio::time::sleep(DAY).await;
        Ok(String::new())
    }
    let kit = TestKit::new()
        .await
        .expect("a kit")
        .workflow(ORDER, panics)
        .start();
    kit.begin(ORDER, "a", &21).await.expect("started");
    let error = kit.run_ready(10).await.expect_err("it panics");
    assert!(error.to_string().contains("no luck"), "{error}");

    let kit = TestKit::new()
        .await
        .expect("a kit")
        .workflow(ORDER, foreign)
        .start();
    kit.begin(ORDER, "a", &21).await.expect("started");
    let error = kit.run_ready(10).await.expect_err("it waits elsewhere");
    assert!(error.to_string().contains("not of its context"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_child_is_real_and_its_input_is_seen() {
    const PARENT: Workflow<u32, String> = Workflow::new("shop.parent");
    async fn parent(ctx: Context, cents: u32) -> Result<String, Failure> {
        ctx.child(ORDER, &cents).await
    }
    let kit = TestKit::new().await.expect("a kit").workflow(ORDER, order);
    let kit = kit.workflow(PARENT, parent);
    let kit = kit.mock(CHARGE, |_| Ok(7)).mock(REFUND, |_| Ok(())).start();
    let begun = kit.begin(PARENT, "a", &21).await.expect("started");

    kit.pass(8 * DAY).await.expect("no trouble");

    assert_eq!(kit.children(ORDER), [21]);
    assert_eq!(
        kit.ended(&begun).await.expect("ended"),
        Ok("refunded".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_kit_takes_the_limits_that_production_has() {
    let limits = || {
        let mut limits = Limits::default();
        limits.payload_bytes = 1;
        limits
    };
    let kit = TestKit::with(|engine| engine.limits(limits())).await;
    let kit = kit.expect("a kit").workflow(ORDER, order).start();

    let refused = kit.begin(ORDER, "order-17", &21).await.map(drop);

    assert!(refused.is_err(), "two digits are too many");
    kit.assert_nothing_dispatched();
}

#[tokio::test(start_paused = true)]
async fn a_golden_history_is_followed_or_shown_beside_what_the_code_asks_for() {
    async fn cash(ctx: Context, _: u32) -> Result<String, Failure> {
        ctx.activity(SHIP, &0).await
    }
    let kit = TestKit::new().await.expect("a kit").workflow(ORDER, order);
    let kit = kit.mock(CHARGE, |_| Ok(7)).mock(REFUND, |_| Ok(())).start();
    let placed = kit.begin(ORDER, "order-17", &21).await.expect("started");
    kit.run_ready(10).await.expect("no trouble");
    let open = placed.export().await.expect("a history");
    kit.pass(8 * DAY).await.expect("no trouble");
    let ended = placed.export().await.expect("a history");
    // As it lies in a file beside the test.
    let document = ended.to_json().expect("a document");
    let ended = History::from_json(&document).expect("a history");

    replay(ORDER, order, &open).expect("the same code");
    replay(ORDER, order, &ended).expect("the same code");

    for history in [&open, &ended] {
        let error = replay(ORDER, cash, history).expect_err("another way");
        let message = error.to_string();
        assert!(
            message.contains("`shop.charge`") && message.contains("`shop.ship`"),
            "{message}"
        );
    }
    let other: Workflow<u32, String> = Workflow::new("shop.other");
    assert!(replay(other, order, &open).is_err(), "of another workflow");
}

/// Turns all bits around: enough to see that nothing goes by it.
struct Inverted;

impl Codec for Inverted {
    fn name(&self) -> &'static str {
        "inverted"
    }

    fn encode(&self, json: Vec<u8>) -> coord_core::Result<Vec<u8>> {
        Ok(json.iter().map(|byte| !byte).collect())
    }

    fn decode(&self, stored: &[u8]) -> coord_core::Result<Vec<u8>> {
        Ok(stored.iter().map(|byte| !byte).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_golden_history_of_a_codec_is_followed_with_it_and_refused_without() {
    let kit = TestKit::with(|engine| engine.codec(Inverted)).await;
    let kit = kit.expect("a kit").workflow(ORDER, order);
    let kit = kit.mock(CHARGE, |_| Ok(7)).mock(REFUND, |_| Ok(())).start();
    let placed = kit.begin(ORDER, "order-17", &21).await.expect("started");
    kit.pass(8 * DAY).await.expect("no trouble");
    let golden = placed.export().await.expect("a history");

    replay_with(Inverted, ORDER, order, &golden).expect("the same code");

    let error = replay(ORDER, order, &golden).expect_err("it cannot be read");
    assert!(error.to_string().contains("inverted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_fails_fails_the_test_unless_it_may() {
    async fn lost(_: Context, _: u32) -> Result<String, Failure> {
        Err(Failure::new("lost").of_kind("lost"))
    }
    async fn careful(ctx: Context, cents: u32) -> Result<String, Failure> {
        const LOST: Workflow<u32, String> = Workflow::new("shop.lost");
        let failed = ctx.child(LOST, &cents).await.expect_err("it is lost");
        Ok(failed.kind)
    }
    const LOST: Workflow<u32, String> = Workflow::new("shop.lost");
    let kit = TestKit::new().await.expect("a kit").workflow(LOST, lost);
    let kit = kit.workflow(ORDER, careful).start();
    // What its parent deals with is no failure of the test.
    let order = kit.begin(ORDER, "a", &1).await.expect("started");
    kit.run_ready(10).await.expect("dealt with");
    assert_eq!(
        kit.ended(&order).await.expect("ended"),
        Ok("lost".to_owned())
    );

    kit.begin(LOST, "b", &1).await.expect("started");

    let error = kit.run_ready(10).await.expect_err("it fails");
    assert!(error.to_string().contains("shop.lost"), "{error}");
    let kit = TestKit::new().await.expect("a kit").workflow(LOST, lost);
    let kit = kit.may_fail().start();
    let order = kit.begin(LOST, "b", &1).await.expect("started");
    kit.run_ready(10).await.expect("it may");
    let ended = kit.ended(&order).await.expect("ended");
    assert_eq!(ended.expect_err("it fails").kind, "lost");
}

#[tokio::test(start_paused = true)]
async fn schedules_fire_at_their_instants_while_time_passes() {
    const REPORT: Workflow<(), i64> = Workflow::new("shop.report");
    async fn report(ctx: Context, (): ()) -> Result<i64, Failure> {
        let occurrence = ctx.occurrence().ok_or_else(|| Failure::new("none"))?;
        ctx.sleep(Duration::from_hours(1)).await?;
        // How late it was, in milliseconds, beside the hour that it takes.
        let late = ctx.now().since(occurrence.at).as_millis();
        i64::try_from(late).map_err(Failure::from)
    }
    let kit = TestKit::new().await.expect("a kit");
    let kit = kit.workflow(REPORT, report).start();
    let id = ScheduleId::new("daily").expect("an id");
    let daily = kit.client().schedule(id);
    let when = When::cron("0 9 * * *", "Europe/Berlin");
    let created = daily.create(when, REPORT, &()).overlap(Overlap::BufferAll);
    // Far less than the time that passes in one go.
    let created = created.catch_up(Duration::from_mins(1));
    created.await.expect("created");

    kit.pass(30 * DAY).await.expect("no trouble");

    let described = daily.describe().await.expect("an answer").expect("there");
    assert_eq!(described.record.state.fires, 30);
    assert_eq!(described.record.state.missed, 0);
    for fire in &described.fires {
        let report = kit.client().handle(REPORT, fire.workflow.clone());
        match kit.ended(&report).await {
            Ok(late) => assert!((3_600_000..3_605_000).contains(&late.expect("a time"))),
            Err(_) => assert_eq!(fire.at, described.fires[0].at, "the last one may go on"),
        }
    }
}
