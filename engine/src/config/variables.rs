//! The table of variables that the engine reads.

use coord_core::Variable;

use crate::{compatibility, limits, quotas};

/// The prefixes under which a name that nobody reads is a misspelt one.
pub(super) const PREFIXES: [&str; 3] = ["DW_V2_", "WORKFLOW_V2_", "COORD_ENGINE_"];

/// The environment variables that [`EngineConfig::from_env`](super::EngineConfig::from_env) reads,
/// beside those of coord-redis. Each `DW_V2_` name is also read by the older `WORKFLOW_V2_` one.
pub const VARIABLES: &[Variable] = &all();

const COUNT: usize = OWN.len()
    + quotas::VARIABLES.len()
    + compatibility::VARIABLES.len()
    + limits::VARIABLES.len()
    + INERT.len();

const fn all() -> [Variable; COUNT] {
    let mut all = [DATABASE_URL; COUNT];
    let parts: [&[Variable]; 5] = [
        OWN,
        &compatibility::VARIABLES,
        &quotas::VARIABLES,
        &limits::VARIABLES,
        INERT,
    ];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[at] = parts[part][index];
            at += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

const OWN: &[Variable] = &[
    DATABASE_URL,
    DB_CONNECTION,
    DB_HOST,
    DB_PORT,
    DB_DATABASE,
    DB_USERNAME,
    DB_PASSWORD,
    DB_POOLER,
    CACHE_DRIVER,
    DISPATCH,
    PIN,
    CACHE_PREFIX,
    MEMCACHED_HOST,
    MEMCACHED_PORT,
    NATS_URL,
    NATS_USER,
    NATS_PASSWORD,
    NATS_TOKEN,
    APP_NAME,
    LOG_LEVEL,
    NAMESPACE,
    QUEUE,
    TASK_LEASE,
    STICKY,
    STICKY_CAPACITY,
    UPDATE_WAIT,
    REPAIR_EVERY,
    TTL,
    HEARTBEAT,
    TERM,
    SKIP_RECOVERY,
    LOCAL_LEASE,
    RETENTION,
    ARCHIVE,
    ARCHIVE_AFTER,
    MULTI_NODE,
    VALIDATE_CACHE,
    CACHE_MODE,
];

/// A variable under both of its names.
macro_rules! named {
    ($name:literal, $default:literal, $about:literal) => {
        Variable::new(concat!("DW_V2_", $name), $default, $about).or(concat!("WORKFLOW_V2_", $name))
    };
}

pub(super) const DATABASE_URL: Variable = Variable::new(
    "DATABASE_URL",
    "",
    "Where the database is: `postgres://user:password@host:port/database`, `mysql://…`, `mariadb://…`, `sqlite:file` or `sqlite::memory:`. It wins over the parts that follow; one or the other must be there.",
)
.url();
pub(super) const DB_CONNECTION: Variable = Variable::new(
    "DB_CONNECTION",
    "",
    "What the database is: `pgsql`, `mysql`, `mariadb` or `sqlite`.",
);
pub(super) const DB_HOST: Variable =
    Variable::new("DB_HOST", "127.0.0.1", "The host of the server.");
pub(super) const DB_PORT: Variable = Variable::new(
    "DB_PORT",
    "",
    "Its port; 5432 for PostgreSQL and 3306 for MySQL and MariaDB when not set.",
);
pub(super) const DB_DATABASE: Variable = Variable::new(
    "DB_DATABASE",
    "",
    "The name of the database; for SQLite its file, or `:memory:`.",
);
pub(super) const DB_USERNAME: Variable = Variable::new(
    "DB_USERNAME",
    "",
    "The user there; `postgres` or `root` when not set, with which an installation begins.",
);
pub(super) const DB_PASSWORD: Variable =
    Variable::new("DB_PASSWORD", "", "The password there.").secret();
pub(super) const CACHE_DRIVER: Variable = Variable::new(
    "CACHE_DRIVER",
    "",
    "What carries hints between processes: `redis`, `memcached`, `nats`, `database` (a table), or `notify`, also `pg-notify` (`LISTEN` and `NOTIFY` of PostgreSQL); `file`, `array` and `none` carry none, and each process looks for the others' work once a second. Several, with commas between, are used side by side, to move from one to another. When not set: `redis` where its address is set, `database` otherwise.",
);
pub(super) const DISPATCH: Variable = named!(
    "TASK_DISPATCH_MODE",
    "queue",
    "How workers learn of tasks that others have made: `queue`, each goes to one of those who wait, through streams in Redis; `poll`, a hint has all of them look. Where CACHE_DRIVER does not name `redis`, `queue` is `poll`."
);
pub(super) const PIN: Variable = named!(
    "PIN_TO_RECORDED_FINGERPRINT",
    "true",
    "Whether a run stays with the definition with which its workflow was registered where it began: workers with another one leave it alone. Where code is registered without a definition it has no effect."
);
pub(super) const CACHE_PREFIX: Variable = Variable::new(
    "CACHE_PREFIX",
    "coord",
    "What the keys of memcached and the subject of NATS begin with, where they carry hints; one for each application that shares a server. `COORD_REDIS_PREFIX` is that of Redis.",
);
pub(super) const MEMCACHED_HOST: Variable = Variable::new(
    "MEMCACHED_HOST",
    "127.0.0.1",
    "The host of memcached, reached over IPv4, or the path of its socket, which begins with `/`. One server: it carries the hints of all nodes.",
);
pub(super) const MEMCACHED_PORT: Variable = Variable::new("MEMCACHED_PORT", "11211", "Its port.");
pub(super) const NATS_URL: Variable = Variable::new(
    "NATS_URL",
    "nats://127.0.0.1:4222",
    "Where NATS is: `nats://host:port`, or `tls://` with a certificate that the system trusts; `user:password@` may stand before the host. Several servers of one cluster stand with commas between.",
)
.url();
pub(super) const NATS_USER: Variable =
    Variable::new("NATS_USER", "", "The user there, where no URL names one.");
pub(super) const NATS_PASSWORD: Variable =
    Variable::new("NATS_PASSWORD", "", "The password there.").secret();
pub(super) const NATS_TOKEN: Variable = Variable::new(
    "NATS_TOKEN",
    "",
    "The token there, for servers that want one in place of a user. In the URL it is refused, since URLs are shown.",
)
.secret();
pub(super) const APP_NAME: Variable = Variable::new(
    "APP_NAME",
    "",
    "What this node is called where processes are listed; a label, so that two may have the same. When not set, each start gives itself one.",
);
pub(super) const LOG_LEVEL: Variable = Variable::new(
    "LOG_LEVEL",
    "info",
    "What the program logs, if it sets up a log: `off`, `error`, `warn`, `info`, `debug` or `trace`; `warning`, `notice`, `critical`, `alert` and `emergency` stand for the nearest of these.",
);
pub(super) const NAMESPACE: Variable = named!(
    "NAMESPACE",
    "default",
    "The namespace of clients and workers that are not told another one. When it is set, what this process does for all stays there: it takes back, ends, fires and removes nothing elsewhere."
);
pub(super) const QUEUE: Variable = named!(
    "QUEUE",
    "default",
    "The queue of clients and workers that are not told another one."
);
pub(super) const TASK_LEASE: Variable = named!(
    "WORKFLOW_TASK_LEASE_SECONDS",
    "60",
    "How long a worker leases a task; it renews at a third of it. Heartbeats find a worker that died sooner; the lease bounds one that lives and is stuck."
);
pub(super) const STICKY: Variable = named!(
    "STICKY_EXECUTION_ENABLED",
    "true",
    "Whether workers keep runs in memory between their turns, so that a turn costs what is new and not the whole history."
);
pub(super) const STICKY_CAPACITY: Variable = named!(
    "STICKY_EXECUTION_DEFAULT_CACHE_CAPACITY",
    "1000",
    "How many runs a worker keeps in memory."
);
pub(super) const UPDATE_WAIT: Variable = named!(
    "UPDATE_WAIT_COMPLETION_TIMEOUT_SECONDS",
    "10",
    "For how long a caller waits for the answer to an update who does not say."
);
pub(super) const REPAIR_EVERY: Variable = named!(
    "TASK_REPAIR_LOOP_THROTTLE_SECONDS",
    "5",
    "How often one process for all takes back what the dead had; shorter than its term."
);
pub(super) const TTL: Variable = Variable::new(
    "COORD_ENGINE_TTL",
    "15s",
    "How long a process counts as alive without a heartbeat: at least three of them, and a term, a heartbeat and 2 s. The same in all processes on one database.",
);
pub(super) const HEARTBEAT: Variable = Variable::new(
    "COORD_ENGINE_HEARTBEAT",
    "5s",
    "How often a process shows that it lives.",
);
pub(super) const DB_POOLER: Variable = Variable::new(
    "COORD_ENGINE_POOLER",
    "false",
    "Whether a pooler of PostgreSQL hands each transaction to another connection and follows no named statements, as PgBouncer before 1.21 does: statements then have no names.",
);
pub(super) const TERM: Variable = Variable::new(
    "COORD_ENGINE_TERM",
    "8s",
    "How long one process takes back for all without renewing that; longer than the time between two looks.",
);
pub(super) const SKIP_RECOVERY: Variable = Variable::new(
    "WORKFLOW_SKIP_BOOT_RECOVERY",
    "0",
    "1 keeps this process from looking after the others: it declares none dead, and takes back nothing, not at its start and not later. `engine.role_vacant` reports that all are set so.",
);
pub(super) const LOCAL_LEASE: Variable = Variable::new(
    "WORKFLOW_INLINE_OWNERSHIP_LEASE_SECONDS",
    "",
    "How long the lease of a local step is at most; it is renewed at a third of it for as long as the step runs. When not set, that of every task holds.",
);
pub(super) const RETENTION: Variable = Variable::new(
    "COORD_ENGINE_RETENTION",
    "30days",
    "For how long closed runs are kept, where their namespace does not say.",
);
pub(super) const ARCHIVE: Variable = Variable::new(
    "COORD_ENGINE_ARCHIVE",
    "",
    "A folder into which histories of closed runs go, one file each, and leave the database; a run whose history is still here is then not removed. The same for all processes on one database, on a file system that keeps what it confirms. Not set: histories stay as long as their runs.",
);
pub(super) const ARCHIVE_AFTER: Variable = Variable::new(
    "COORD_ENGINE_ARCHIVE_AFTER",
    "7days",
    "How long a run was closed when its history goes there; a minute at least.",
);
pub(super) const MULTI_NODE: Variable = named!(
    "MULTI_NODE",
    "false",
    "Whether several nodes work together. It changes nothing but what is checked at start."
);
pub(super) const VALIDATE_CACHE: Variable = named!(
    "VALIDATE_CACHE_BACKEND",
    "true",
    "Whether it is checked at start that several nodes have something that carries hints between them."
);
pub(super) const CACHE_MODE: Variable = named!(
    "CACHE_VALIDATION_MODE",
    "warn",
    "What comes of that check: `warn` or `silent`. `fail` is `warn`: hints save time, and their lack never keeps a node from its work."
);

/// Those that set nothing here, in the order of their reasons.
const INERT: &[Variable] = &[
    named!("CONNECTION", "", "The connection on which tasks are dispatched.")
        .inert("tasks are rows of the one database that `DATABASE_URL` or `DB_CONNECTION` names"),
    named!("MATCHING_ROLE_QUEUE_WAKE", "true", "Whether the loop of a worker looks for tasks to repair.")
        .inert("one process of all does that, whichever holds the role"),
    named!("TASK_REPAIR_REDISPATCH_AFTER_SECONDS", "3", "After how long a task is dispatched again.")
        .inert("a ready task is not dispatched; workers find it within a second, or five with hints"),
    named!("TASK_REPAIR_SCAN_LIMIT", "25", "How many tasks one look repairs.")
        .inert("it goes on in portions of a hundred until nothing is left"),
    named!("TASK_REPAIR_FAILURE_BACKOFF_MAX_SECONDS", "60", "The longest wait after a failed dispatch.")
        .inert("nothing is dispatched; a turn that fails waits for a minute at most"),
    named!("STICKY_EXECUTION_TTL_SECONDS", "300", "How long a run stays in memory.")
        .inert("the oldest run leaves when there are too many, and none is trusted that others went on with"),
    named!("STICKY_EXECUTION_CAPACITY_PRESSURE_RATIO", "0.9", "How full the memory of runs may be.")
        .inert("a full one drops the oldest run for each new one"),
    named!("UPDATE_WAIT_POLL_INTERVAL_MS", "50", "How often a caller looks for the answer to an update.")
        .inert("hints tell it when; without them it looks once a second"),
    named!("HISTORY_EVENT_WARNING_THRESHOLD", "8000", "Events after which a run is reported.")
        .inert("at `DW_V2_CONTINUE_AS_NEW_EVENT_THRESHOLD` the run itself is told, and `engine.limit_near` reports the limit"),
    named!("HISTORY_SIZE_BYTES_WARNING_THRESHOLD", "4194304", "Bytes after which a run is reported.")
        .inert("at `DW_V2_CONTINUE_AS_NEW_SIZE_BYTES_THRESHOLD` the run itself is told"),
    named!("HISTORY_FAN_OUT_WARNING_THRESHOLD", "160", "Open activities and children at which a run is reported.")
        .inert("at `DW_V2_CONTINUE_AS_NEW_FAN_OUT_THRESHOLD` the run itself is told"),
    named!("HISTORY_EXPORT_SIGNING_KEY", "", "The key that signs exported histories.")
        .secret()
        .inert("exported histories carry no signature"),
    named!("HISTORY_EXPORT_SIGNING_KEY_ID", "", "Which key that is.")
        .inert("exported histories carry no signature"),
    named!("GUARDRAILS_BOOT", "warn", "What comes of a look for workflow code that decides by chance.")
        .inert("code is compiled, and what goes another way than its history is stopped at that point"),
    named!("COMPATIBILITY_NAMESPACE", "", "Within what markers are compared.")
        .inert("builds are promoted and drained by namespace, and workers are seen by namespace and queue"),
    named!("COMPATIBILITY_HEARTBEAT_TTL", "30", "How long a worker counts as there.")
        .inert("`COORD_ENGINE_TTL` says how long a process counts as alive"),
    named!("COMPATIBILITY_DISABLE_HEARTBEAT_TABLE", "false", "Whether workers leave no trace of themselves.")
        .inert("recovery relies on it"),
];
