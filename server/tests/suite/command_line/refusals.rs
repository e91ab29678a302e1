//! What cannot be done is said in one line, with a code for scripts.

use sqlx::Connection as _;

use crate::command_line::stage::{Database, call, ended, program};
use crate::server;

#[test]
fn an_address_that_is_none_is_refused_before_anything_is_asked() {
    call(&["runs", "list"]).refused(2, &["DATABASE_URL"]);
    call(&["runs", "list", "--database", "oracle://db/x"]).refused(2, &["oracle", "postgres:"]);
    call(&["serve", "--open", "--database", "oracle://db/x"]).refused(2, &["oracle", "postgres:"]);
    call(&["locks", "inspect", "a"]).refused(2, &["COORD_REDIS_URL"]);
    call(&["locks", "inspect", "a", "--redis", "http://here"]).refused(2, &["redis://"]);
    call(&["health", "--node", "here"]).refused(2, &["here"]);
}

#[test]
fn a_server_that_is_not_there_is_told_from_a_wrong_question() {
    for database in [
        "postgres://postgres@127.0.0.1:1/coord",
        "mysql://root@127.0.0.1:1/coord",
    ] {
        let why = ["reaching the database", "127.0.0.1:1", "refused"];
        call(&["runs", "list", "--database", database]).refused(4, &why);
    }
    call(&["locks", "inspect", "a", "--redis", "redis://127.0.0.1:1"]).refused(4, &[]);
    call(&["health", "--node", "http://127.0.0.1:1"]).refused(4, &["http://127.0.0.1:1"]);
}

#[test]
fn what_is_not_there_is_named() {
    let database = Database::sqlite();
    let missing = database.folder.path().join("coord.db");
    let missing = missing.to_str().expect("text");
    database
        .coord(&["runs", "list"])
        .refused(3, &[missing, "coord migrate"]);
    let database = database.migrated();

    for words in [
        &["runs", "describe", "nobody"][..],
        &["runs", "history", "nobody"],
        &["runs", "result", "nobody"],
        &["runs", "signal", "nobody", "s"],
        &["runs", "cancel", "nobody"],
        &["runs", "terminate", "nobody", "--reason", "r"],
        &["runs", "resume", "nobody"],
        &["explain", "nobody"],
        &["tail", "nobody"],
        &["schedules", "describe", "nobody"],
        &["schedules", "pause", "nobody"],
        &["schedules", "resume", "nobody"],
        &["schedules", "trigger", "nobody"],
    ] {
        database.coord(words).refused(3, &["nobody"]);
    }
}

#[test]
fn a_value_that_is_no_json_is_refused_with_what_to_write() {
    let database = Database::sqlite().migrated();
    let start = ["runs", "start", "tests.echo", "--input"];

    database
        .coord(&[&start[..], &["ann"]].concat())
        .refused(2, &["ann", "double quotes"]);
    database
        .coord(&[&start[..], &["@/nowhere"]].concat())
        .refused(2, &["/nowhere"]);
}

#[test]
fn words_that_are_none_are_refused_with_help() {
    for words in [
        &["runs", "list", "--limit", "0"][..],
        &["runs", "list", "--status", "asleep"],
        &["runs", "start", ""],
        &["locks", "release", "a", "--fence", "0", "--by", "me"],
        &["dev", "--listen", "0.0.0.0:8080"],
        &["runs", "result", "a", "--wait", "5"],
    ] {
        let refused = call(words);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(
            refused.err.contains("--help") || refused.err.contains("Usage"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_user_without_rights_is_told_so() {
    let Some(database) = Database::postgres().await else {
        return;
    };
    let database = database.migrated();
    let mut connection = sqlx::PgConnection::connect(&database.url)
        .await
        .expect("connected");
    let name = format!("guest_{}", coord_engine::model::Ids::random().stem());
    let make = sqlx::AssertSqlSafe(format!("CREATE ROLE {name} LOGIN PASSWORD 'guest'"));
    sqlx::raw_sql(make)
        .execute(&mut connection)
        .await
        .expect("a role");
    let at = server::url(&server::POSTGRES);
    let (_, host) = at.rsplit_once('@').expect("a user");
    let (_, path) = database.url.rsplit_once('/').expect("a name");
    let url = format!("postgres://{name}:guest@{host}/{path}");

    let refused = ended(program().args(["runs", "list", "--database", &url]));
    let not_migrated = ended(program().args(["migrate", "--database", &url]));
    let hidden = sqlx::raw_sql("REVOKE ALL ON SCHEMA public FROM PUBLIC");
    hidden.execute(&mut connection).await.expect("revoked");
    let unseen = ended(program().args(["runs", "list", "--database", &url]));

    let drop = sqlx::AssertSqlSafe(format!("DROP ROLE {name}"));
    sqlx::raw_sql(drop)
        .execute(&mut connection)
        .await
        .expect("dropped");
    let rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO";
    refused.refused(2, &["permission denied", rights, &name]);
    not_migrated.refused(2, &["migrating the schema", "may not"]);
    // Who may not use a schema does not even see that there is something.
    unseen.refused(2, &["GRANT USAGE ON SCHEMA public TO", rights]);
}

#[tokio::test]
async fn a_user_of_mysql_without_rights_is_told_so() {
    let Some(database) = Database::mysql().await else {
        return;
    };
    let database = database.migrated();
    let name = format!("guest_{}", &coord_engine::model::Ids::random().stem()[..12]);
    let execute = |statement: String| database.execute(statement);
    execute(format!("CREATE USER '{name}'@'%' IDENTIFIED BY 'guest'")).await;
    // Enough to be let in, and not to read.
    let (_, path) = database.url.rsplit_once('/').expect("a name");
    let schema = path.split('?').next().expect("a name").to_owned();
    execute(format!(
        "GRANT CREATE TEMPORARY TABLES ON {schema}.* TO '{name}'@'%'"
    ))
    .await;
    let at = server::url(&server::MYSQL);
    let (_, host) = at.rsplit_once('@').expect("a user");
    let url = format!("mysql://{name}:guest@{host}/{path}");

    let refused = ended(program().args(["runs", "list", "--database", &url]));
    let not_migrated = ended(program().args(["migrate", "--database", &url]));

    execute(format!("DROP USER '{name}'@'%'")).await;
    refused.refused(2, &["GRANT", "denied"]);
    not_migrated.refused(2, &["GRANT", "denied"]);
}

#[test]
fn a_level_of_the_log_that_is_none_is_refused() {
    let database = Database::sqlite();
    let mut command = program();
    let command = command
        .args(["serve", "--open"])
        .env("DATABASE_URL", &database.url);

    let refused = ended(command.env("LOG_LEVEL", "chatty"));

    refused.refused(2, &["LOG_LEVEL", "chatty", "debug"]);
}
