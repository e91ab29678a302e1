//! Histories against the code of today.

use std::sync::Arc;

use coord_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Limits;
use crate::flow::{Code, Context, Workflow, function};
use crate::model::{Failure, History, Ids, Namespace};
use crate::transition::Identity;
use crate::values::{Codec, Values};

/// Whether `code` follows the history of a run of `workflow`, open or ended, to its last event.
/// Nothing is done by it: activities and steps give what the history has. Its document is read by
/// [`History::from_json`].
///
/// ```
/// # use coord_engine::flow::{Activity, Context, Workflow};
/// # use coord_engine::model::{Failure, History};
/// # use coord_engine::testing::{TestKit, replay};
/// # const GREET: Workflow<(), ()> = Workflow::new("greet");
/// # const HELLO: Activity<(), ()> = Activity::new("hello");
/// # const BYE: Activity<(), ()> = Activity::new("bye");
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), coord_core::Error> {
/// # async fn before(ctx: Context, (): ()) -> Result<(), Failure> { ctx.activity(HELLO, &()).await }
/// # let kit = TestKit::new().await?.workflow(GREET, before).mock(HELLO, |()| Ok(())).start();
/// # let greeted = kit.begin(GREET, "a", &()).await?;
/// # kit.run_ready(10).await?;
/// # let document = greeted.export().await?.to_json()?;
/// let golden = History::from_json(&document)?; // include_str!("greeted.json")
/// async fn greet(ctx: Context, (): ()) -> Result<(), Failure> {
///     ctx.activity(BYE, &()).await
/// }
///
/// let error = replay(GREET, greet, &golden).expect_err("it said hello before");
///
/// let expected = "operation 1: the history has activity `hello`, the code asks for activity `bye`";
/// assert_eq!(error.message(), expected);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Invalid`, with both ways side by side when the code goes another way than the history, and with
/// its message when it panics or waits for something that is not of its context, and when its values
/// were written by a codec. `Corrupt` when the events are no history, or one of another workflow.
pub fn replay<I, O, F, R>(workflow: Workflow<I, O>, code: F, history: &History) -> Result<()>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    F: Fn(Context, I) -> R + Send + Sync + 'static,
    R: Future<Output = std::result::Result<O, Failure>> + Send + 'static,
{
    follow(Values::default(), workflow, code, history)
}

/// As [`replay`], for the history of an engine whose values went through `codec`.
///
/// # Errors
/// As [`replay`]; `Invalid` also when the codec does not read a value.
pub fn replay_with<I, O, F, R>(
    codec: impl Codec,
    workflow: Workflow<I, O>,
    code: F,
    history: &History,
) -> Result<()>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    F: Fn(Context, I) -> R + Send + Sync + 'static,
    R: Future<Output = std::result::Result<O, Failure>> + Send + 'static,
{
    let values = Values::new(Some(Arc::new(codec)), Limits::default());
    follow(values, workflow, code, history)
}

fn follow<I, O, F, R>(
    values: Values,
    workflow: Workflow<I, O>,
    code: F,
    history: &History,
) -> Result<()>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    F: Fn(Context, I) -> R + Send + Sync + 'static,
    R: Future<Output = std::result::Result<O, Failure>> + Send + 'static,
{
    let started = history.started();
    if started.name != workflow.name() {
        let message = format!(
            "a history of {}, and not of {}",
            started.name,
            workflow.name()
        );
        return Err(Error::corrupt(message));
    }
    let identity = Identity {
        namespace: Namespace::default(),
        workflow: started.workflow.clone(),
        run: history.run().clone(),
    };
    let means = (Arc::new(Ids::random()), Arc::new(values));
    match Code::replay(identity, means, history.events(), &function(code))? {
        Ok(_) => Ok(()),
        Err(problem) => Err(Error::invalid(problem.to_string())),
    }
}
