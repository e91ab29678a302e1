use std::time::{Duration, Instant};

use super::*;
use crate::{need, resp::CommandError};

fn refusal(answer: Result<Resp>) -> String {
    match answer {
        Err(CommandError::Server(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_killed_server_refuses_and_a_restarted_one_has_forgotten() {
    let server = need!(RedisServer::start().await);
    server.command(&["SET", "k", "v"]).await.unwrap();
    let (port, run) = (server.port(), server.info("run_id").await.unwrap());

    server.kill().await;
    assert!(server.connect().await.is_err());

    server.restart().await;
    assert_eq!(server.command(&["GET", "k"]).await.unwrap(), Resp::Nil);
    assert_eq!(server.port(), port);
    assert_ne!(server.info("run_id").await.unwrap(), run);
}

#[tokio::test]
async fn a_durable_server_remembers_what_it_answered_before_it_was_killed() {
    let server = need!(RedisServer::builder().durable().start().await);
    server.command(&["SET", "k", "v"]).await.unwrap();

    server.kill().await;
    server.restart().await;

    assert_eq!(server.command(&["GET", "k"]).await.unwrap().text(), "v");
}

#[tokio::test]
async fn a_stopped_server_can_be_restarted() {
    let server = need!(RedisServer::start().await);

    server.stop().await;
    assert!(server.connect().await.is_err());
    assert!(server.log().await.contains("bye bye"));

    server.restart().await;
    server.command(&["PING"]).await.unwrap();
}

#[tokio::test]
async fn a_paused_server_accepts_and_is_silent_until_resumed() {
    let server = need!(RedisServer::start().await);
    server.pause().await;

    let mut client = server.connect().await.unwrap();
    client.send(&["PING"]).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(150), client.receive()).await;
    assert!(silence.is_err());

    server.resume().await;
    assert_eq!(client.receive().await.unwrap().text(), "PONG");
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = need!(RedisServer::start().await);
    let addr = server.addr();

    drop(server);

    assert!(Connection::open(addr).await.is_err());
}

#[tokio::test]
async fn a_debug_sleep_holds_up_everybody() {
    let server = need!(RedisServer::start().await);
    let mut sleeper = server.connect().await.unwrap();

    let start = Instant::now();
    sleeper.send(&["DEBUG", "SLEEP", "0.2"]).await.unwrap();
    sleeper.receive().await.unwrap();

    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_password_is_required_and_is_in_the_url() {
    let server = need!(RedisServer::builder().password("secret").start().await);

    let mut stranger = Connection::open(server.addr()).await.unwrap();

    assert!(refusal(stranger.command(&["GET", "k"]).await).starts_with("NOAUTH"));
    assert_eq!(
        server.url(),
        format!("redis://:secret@127.0.0.1:{}", server.port())
    );
    server.command(&["GET", "k"]).await.unwrap();
}

#[tokio::test]
async fn a_user_may_do_what_its_rules_say() {
    let rules = ["on", ">pw", "~app:*", "+get", "-@dangerous"];
    let server = need!(RedisServer::builder().user("reader", &rules).start().await);
    let mut reader = Connection::open(server.addr()).await.unwrap();
    reader.command(&["AUTH", "reader", "pw"]).await.unwrap();

    reader.command(&["GET", "app:k"]).await.unwrap();

    assert!(refusal(reader.command(&["GET", "k"]).await).starts_with("NOPERM"));
    assert!(refusal(reader.command(&["SET", "app:k", "v"]).await).starts_with("NOPERM"));
}

#[tokio::test]
async fn a_full_server_refuses_writes() {
    let server = need!(
        RedisServer::builder()
            .max_memory(1, "noeviction")
            .start()
            .await
    );

    assert!(refusal(server.command(&["SET", "k", "v"]).await).starts_with("OOM"));
}

#[tokio::test]
async fn a_replica_has_what_its_master_has() {
    let master = need!(RedisServer::builder().password("secret").start().await);
    master.command(&["SET", "k", "v"]).await.unwrap();

    let replica = need!(RedisServer::builder().replica_of(&master).start().await);

    assert_eq!(replica.command(&["GET", "k"]).await.unwrap().text(), "v");
    assert!(refusal(replica.command(&["SET", "k", "w"]).await).starts_with("READONLY"));
}

#[tokio::test]
async fn a_loading_server_says_so_until_it_has_loaded() {
    let builder = RedisServer::builder().loading_for(Duration::from_secs(20));
    let server = need!(builder.start().await);

    assert!(refusal(server.command(&["GET", "k"]).await).starts_with("LOADING"));

    server.finish_loading().await.unwrap();
    assert_eq!(server.command(&["GET", "k"]).await.unwrap(), Resp::Nil);
}

#[tokio::test]
async fn a_monitor_has_every_command_in_order() {
    let server = need!(RedisServer::start().await);
    server.command(&["SET", "before", "1"]).await.unwrap();
    let monitor = server.monitor().await.unwrap();

    server.command(&["SET", "a", "1"]).await.unwrap();
    server
        .command(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "a"])
        .await
        .unwrap();

    let sets = monitor.lines_with("\"SET\"").await.unwrap();
    assert!(
        sets.len() == 1 && sets[0].ends_with("\"SET\" \"a\" \"1\""),
        "{sets:?}"
    );
    assert_eq!(
        monitor.lines().await.unwrap().len(),
        3,
        "with the call inside the script"
    );
}

#[tokio::test]
async fn a_field_of_info_is_read_by_its_name() {
    let server = need!(RedisServer::start().await);

    let port = server.info("tcp_port").await.unwrap();
    assert_eq!(port, server.port().to_string());
    assert!(server.info("no_such_field").await.is_err());
}

mod tls {
    use std::{net::Ipv4Addr, sync::Arc};

    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };
    use tokio_rustls::TlsConnector;

    use super::*;

    async fn ping(server: &RedisServer, name: &'static str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(server.ca_path()).unwrap())
            .unwrap();
        // Named, since two providers are in the tree with the client of Amazon SQS.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, server.tls_port())).await?;
        let name = ServerName::try_from(name).unwrap();
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect(name, socket)
            .await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test]
    async fn a_server_proves_its_names_to_who_trusts_its_authority() {
        let server = need!(RedisServer::builder().tls().start().await);

        assert_eq!(ping(&server, "localhost").await.unwrap(), "+PONG\r\n");
        assert_eq!(ping(&server, "127.0.0.1").await.unwrap(), "+PONG\r\n");
        assert_eq!(
            server.tls_url(),
            format!("rediss://localhost:{}", server.tls_port())
        );
    }

    #[tokio::test]
    async fn a_server_of_another_name_fails_the_handshake() {
        let server = need!(
            RedisServer::builder()
                .tls_for(&["elsewhere.test"])
                .start()
                .await
        );

        assert!(ping(&server, "localhost").await.is_err());
    }
}
