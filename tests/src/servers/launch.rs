//! From a description to a server that runs.

use std::time::Duration;

use super::{
    RedisBuilder, RedisServer,
    admin::Admin,
    binary::{self, Binary},
    process::{Failure, Process},
    redis::Ready,
    run::Run,
    tls,
};
use crate::{folder, need::Missing, ports, resp};

/// Losing this many races for a port in a row means that something else is wrong.
const PORT_TRIES: u32 = 8;
/// Enough for a delay of milliseconds each, which a server keeps to well.
const KEYS_TO_LOAD: u32 = 400;

/// Where servers come from on this machine.
enum Source {
    Binary(&'static Binary),
    #[cfg(feature = "docker")]
    Image,
}

pub(super) async fn start(builder: RedisBuilder) -> Result<RedisServer, Missing> {
    // Whatever a test emits, it does after it has a server.
    crate::recorder::recorder();
    let source = source(&builder)?;
    for _ in 0..PORT_TRIES {
        let free = if builder.bus {
            ports::free_with_bus
        } else {
            ports::free
        };
        let addr = ports::loopback(builder.port.unwrap_or_else(free));
        let admin = Admin {
            addr,
            password: builder.password.clone(),
        };
        let started = match source {
            Source::Binary(binary) => as_process(&builder, binary, admin).await,
            #[cfg(feature = "docker")]
            Source::Image => as_container(&builder, admin).await,
        };
        match started {
            Ok(server) => return Ok(server),
            Err(Failure::PortTaken) => {}
            Err(Failure::Missing(missing)) => return Err(missing),
            Err(Failure::Refused(log)) => panic!("the server does not come up:\n{log}"),
        }
    }
    panic!("no port for a server in {PORT_TRIES} tries")
}

#[cfg(not(feature = "docker"))]
fn source(builder: &RedisBuilder) -> Result<Source, Missing> {
    binary(builder)
}

#[cfg(feature = "docker")]
fn source(builder: &RedisBuilder) -> Result<Source, Missing> {
    use crate::env;

    if !env::is_on(env::DOCKER) {
        return binary(builder);
    }
    match super::container::limits(builder) {
        Ok(()) => Ok(Source::Image),
        // A binary beside the engine is there for what no container can be.
        Err(beyond) => binary(builder).map_err(|_| beyond),
    }
}

fn binary(builder: &RedisBuilder) -> Result<Source, Missing> {
    let binary = binary::find()?;
    if builder.loads_for.is_some() {
        binary::since(7, "a server that answers while it loads little data")?;
    }
    Ok(Source::Binary(binary))
}

async fn as_process(
    builder: &RedisBuilder,
    binary: &Binary,
    admin: Admin,
) -> Result<RedisServer, Failure> {
    let mut process = Process::new(binary.path.clone(), admin.clone(), folder::new());
    let mut tls = None;
    if let Some(config) = &builder.sentinel {
        process.args = sentinel(&process, config);
    } else {
        process.args = common(&admin, "127.0.0.1");
        // Older servers do not know the option and always have DEBUG.
        if binary.major >= 7 {
            process
                .args
                .extend(owned(&["--enable-debug-command", "local"]));
        }
        if let Some(master) = &builder.master {
            process.args.extend(replication(master));
        }
        if !builder.tls_names.is_empty() {
            let (port, args) = tls::arguments(process.folder(), &builder.tls_names);
            process.args.extend(args);
            tls = Some(port);
        }
        process.args.extend(builder.args.iter().cloned());
    }
    process.launch().await?;
    if let Some(time) = builder.loads_for {
        fill(&admin).await.expect("a fresh server takes data");
        process.stop().await;
        process.args.extend(slow_loading(time));
        process.launch().await?;
    }
    let ready = if builder.master.is_some() {
        Ready::Replicating
    } else if builder.loads_for.is_some() || builder.sentinel.is_some() {
        Ready::Answering
    } else {
        Ready::Loaded
    };
    Ok(RedisServer::new(Run::Process(process), admin, tls, ready).await)
}

#[cfg(feature = "docker")]
async fn as_container(builder: &RedisBuilder, admin: Admin) -> Result<RedisServer, Failure> {
    // Inside, the test comes from another address than loopback.
    let mut args = common(&admin, "0.0.0.0");
    args.extend(owned(&[
        "--protected-mode",
        "no",
        "--enable-debug-command",
        "yes",
    ]));
    args.extend(builder.args.iter().cloned());
    let container = super::container::Container::new(admin, args).await?;
    container.launch().await?;
    let admin = container.admin().clone();
    Ok(RedisServer::new(
        Run::Container(Box::new(container)),
        admin,
        None,
        Ready::Loaded,
    )
    .await)
}

fn common(admin: &Admin, bind: &str) -> Vec<String> {
    let port = admin.addr.port().to_string();
    let mut args = owned(&[
        "--bind",
        bind,
        "--port",
        &port,
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    // A replica is in sync at once, and the dump of `fill` is as long as its data.
    args.extend(owned(&[
        "--repl-diskless-sync-delay",
        "0",
        "--rdbcompression",
        "no",
    ]));
    if let Some(password) = &admin.password {
        // Masters change their role, so each has the password of the others.
        args.extend(owned(&[
            "--requirepass",
            password,
            "--masterauth",
            password,
        ]));
    }
    args
}

fn replication(master: &Admin) -> Vec<String> {
    let (ip, port) = (master.addr.ip().to_string(), master.addr.port().to_string());
    let mut args = owned(&["--replicaof", &ip, &port]);
    if let Some(password) = &master.password {
        args.extend(owned(&["--masterauth", password]));
    }
    args
}

/// A sentinel keeps what it learns in its configuration file.
fn sentinel(process: &Process, config: &str) -> Vec<String> {
    let file = process.folder().join("sentinel.conf");
    let port = process.admin.addr.port();
    let config = format!("port {port}\nbind 127.0.0.1\n{config}");
    std::fs::write(&file, config).expect("an own folder can be written");
    owned(&[&file.display().to_string(), "--sentinel"])
}

/// Leaves a dump that takes a while to load.
async fn fill(admin: &Admin) -> resp::Result<()> {
    const SCRIPT: &str = "for i = 1, tonumber(ARGV[1]) do \
        redis.call('SET', 'loaded-' .. i, string.rep('x', 2048)) end";
    admin
        .command(&["EVAL", SCRIPT, "0", &KEYS_TO_LOAD.to_string()])
        .await?;
    admin.command(&["SAVE"]).await?;
    Ok(())
}

fn slow_loading(time: Duration) -> Vec<String> {
    let micros = (time / KEYS_TO_LOAD).as_micros().to_string();
    // Between any two keys the server looks at its connections, and says that it is loading.
    owned(&[
        "--key-load-delay",
        &micros,
        "--loading-process-events-interval-bytes",
        "1024",
    ])
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
