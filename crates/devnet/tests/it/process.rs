//! Child processes end when we are killed without a chance to clean up.

use std::process::{Command, Stdio};
use std::time::Duration;

use devnet::{Devnet, Options, Postgres};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROLE: &str = "DEVNET_TEST_PARENT";

/// Not a test of its own: the process that `children_die_with_a_killed_parent` kills.
#[tokio::test]
async fn parent() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let devnet = Devnet::start(Options { block_time: Duration::from_millis(200), ..Options::default() }).await.unwrap();
    let ports = devnet.chains.iter().map(|chain| chain.rpc_url.port().unwrap());
    let ports: Vec<_> = ports.chain(Postgres::shared().await.url().port()).map(|p| p.to_string()).collect();
    println!("ports {}", ports.join(" "));
    std::future::pending::<()>().await;
}

fn is_listening(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn children_die_with_a_killed_parent() {
    use std::io::{BufRead, BufReader};
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["process::parent", "--exact", "--nocapture"])
        .env(ROLE, "1")
        .env_remove("CAUSEWAY_TEST_POSTGRES_URL")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let ports = lines.map_while(Result::ok).find_map(|line| line.split_once("ports ").map(|(_, rest)| rest.to_owned()));
    let ports: Vec<u16> = ports.expect("the parent to start").split(' ').map(|port| port.parse().unwrap()).collect();
    assert_eq!(ports.len(), 4);
    assert!(ports.iter().all(|port| is_listening(*port)));
    kill(Pid::from_raw(parent.id().cast_signed()), Signal::SIGKILL).unwrap();
    parent.wait().unwrap();
    // Bounded by the test runner; it only matters that the end comes.
    while ports.iter().any(|port| is_listening(*port)) {
        std::thread::sleep(Duration::from_millis(20));
    }
}
