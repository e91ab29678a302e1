//! The environment variables that [`Config::from_env`](super::Config::from_env) reads.

use coord_core::Variable;

/// The environment variables that [`Config::from_env`](super::Config::from_env) reads.
pub const VARIABLES: &[Variable] = &[
    URL,
    HOST,
    PORT,
    USERNAME,
    PASSWORD,
    DB,
    PREFIX,
    DEADLINE,
    CONNECT_TIMEOUT,
    PING_INTERVAL,
    NODELAY,
    CA_FILE,
    SENTINEL_USERNAME,
    SENTINEL_PASSWORD,
];

pub(super) const URL: Variable = Variable::new(
    "COORD_REDIS_URL",
    "redis://127.0.0.1:6379",
    "Where Redis is: `redis://`, `redis+sentinel://` or `redis+cluster://`, with `rediss` for TLS. It wins over the parts that follow.",
)
.or("REDIS_URL")
.url();
pub(super) const HOST: Variable = Variable::new(
    "REDIS_HOST",
    "127.0.0.1",
    "The host of a single server, where no URL says it.",
);
pub(super) const PORT: Variable = Variable::new("REDIS_PORT", "6379", "Its port.");
pub(super) const USERNAME: Variable = Variable::new(
    "REDIS_USERNAME",
    "",
    "The ACL user there; the server's default user otherwise.",
);
pub(super) const PASSWORD: Variable =
    Variable::new("REDIS_PASSWORD", "", "The password there.").secret();
pub(super) const DB: Variable = Variable::new("REDIS_DB", "0", "The number of the database there.");
pub(super) const PREFIX: Variable = Variable::new(
    "COORD_REDIS_PREFIX",
    "coord",
    "What all keys start with; one for each application that shares a server.",
);
pub(super) const DEADLINE: Variable = Variable::new(
    "COORD_REDIS_DEADLINE",
    "2s",
    "How long a call may take when it says nothing else: rides out a reconnect, not an outage.",
);
pub(super) const CONNECT_TIMEOUT: Variable = Variable::new(
    "COORD_REDIS_CONNECT_TIMEOUT",
    "1s",
    "How long one attempt to connect may take, handshakes included.",
);
pub(super) const PING_INTERVAL: Variable = Variable::new(
    "COORD_REDIS_PING_INTERVAL",
    "2s",
    "How often an idle connection is checked; a silent peer is found within two intervals.",
);
pub(super) const NODELAY: Variable = Variable::new(
    "COORD_REDIS_NODELAY",
    "true",
    "TCP_NODELAY. Off batches small writes, which is faster on loopback and slower on a network.",
);
pub(super) const CA_FILE: Variable = Variable::new(
    "COORD_REDIS_CA_FILE",
    "",
    "A PEM file with the certificate authority of a private TLS server; the public roots otherwise.",
);
pub(super) const SENTINEL_USERNAME: Variable = Variable::new(
    "COORD_REDIS_SENTINEL_USERNAME",
    "",
    "The ACL user at the sentinels, where they have one.",
);
pub(super) const SENTINEL_PASSWORD: Variable = Variable::new(
    "COORD_REDIS_SENTINEL_PASSWORD",
    "",
    "The password at the sentinels, where they have one.",
)
.secret();
