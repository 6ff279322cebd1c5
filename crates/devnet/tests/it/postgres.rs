use devnet::{Postgres, Progress};
use url::Url;

async fn query(url: &Url, statement: &'static str) -> Vec<String> {
    let url = url.clone();
    tokio::task::spawn_blocking(move || {
        let mut client = postgres::Client::connect(url.as_str(), postgres::NoTls).unwrap();
        client.query(statement, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn databases_are_apart_and_can_be_copied() {
    let server = Postgres::shared().await;
    let first = server.fresh_database().await.unwrap();
    let second = server.fresh_database().await.unwrap();
    query(&first, "create table t as select 'kept' as word").await;
    assert_eq!(query(&second, "select relname::text from pg_class where relname = 't'").await, Vec::<String>::new());
    let copy = server.copy_of(&first).await.unwrap();
    assert_eq!(query(&copy, "select word from t").await, ["kept"]);
}

#[tokio::test]
async fn a_folder_keeps_its_data() {
    if std::env::var_os("CAUSEWAY_TEST_POSTGRES_URL").is_some() {
        // A server that is not ours keeps its own data.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Postgres::start(dir.path(), &Progress::silent()).await.unwrap();
    assert_eq!(query(server.url(), "show fsync").await, ["on"]);
    let database = server.fresh_database().await.unwrap();
    query(&database, "create table t as select 'kept' as word").await;
    server.stop().await.unwrap();

    let server = Postgres::start(dir.path(), &Progress::silent()).await.unwrap();
    let mut moved = server.url().clone();
    moved.set_path(database.path());
    assert_eq!(query(&moved, "select word from t").await, ["kept"]);
    // As after a crash: no orderly end.
    drop(server);
    let server = Postgres::start(dir.path(), &Progress::silent()).await.unwrap();
    moved.set_port(server.url().port()).unwrap();
    assert_eq!(query(&moved, "select word from t").await, ["kept"]);
}
